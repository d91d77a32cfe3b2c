#include "verbs_options.hpp"

#include <array>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weightlift/base/error.hpp"

#include "text.hpp"

namespace weightlift::app {

using transport::Registration;
using transport::Rows;
using transport::VerbsOptions;

namespace {

constexpr std::array<std::pair<std::string_view, Rows>, 5> kRows{{{"auto", Rows::Auto},
                                                                  {"direct", Rows::Direct},
                                                                  {"gather", Rows::Gather},
                                                                  {"pack", Rows::Pack},
                                                                  {"unpack", Rows::Unpack}}};
constexpr std::array<std::pair<std::string_view, Registration>, 3> kRegistrations{
    {{"auto", Registration::Auto},
     {"dmabuf", Registration::DmaBuf},
     {"peermem", Registration::PeerMem}}};
constexpr std::array<std::pair<std::string_view, bool>, 2> kSwitch{{{"on", true}, {"off", false}}};

template <class T, std::size_t N>
std::string_view name_of(T value, const std::array<std::pair<std::string_view, T>, N>& names) {
    for (const auto& [name, candidate] : names)
        if (candidate == value) return name;
    return "?";
}

/// The texts that CLI11 fills; numbers are checked by our own functions, which name the flag.
struct Texts {
    std::string gid_index, qps = "auto", chunk = "1MiB", depth = "256", service_level = "0",
                           traffic_class = "0", pkey_index = "0", retry_count = "6",
                           retry_timeout = "18", relaxed = "on", registration = "auto",
                           rows = "auto", staging = "2GiB", region;
    std::string nics;
};

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        if (end == begin) throw ConfigError(fmt::format("--nic {}: an empty name", text));
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

int small(const std::string& text, std::uint64_t low, std::uint64_t high, const char* flag) {
    return static_cast<int>(parse_number(text, low, high, flag));
}

void fill(const Texts& t, VerbsOptions& out) {
    if (!t.nics.empty()) out.nics = split(t.nics);
    if (!t.gid_index.empty()) out.gid_index = small(t.gid_index, 0, 255, "--gid-index");
    out.qps = t.qps == "auto" ? 0 : small(t.qps, 1, 64, "--qps");
    out.chunk = parse_bytes(t.chunk, "--chunk");
    if (out.chunk < 4 * KiB || out.chunk > GiB)
        throw ConfigError(fmt::format("--chunk {}: must be from 4KiB to 1GiB", t.chunk));
    out.depth = small(t.depth, 4, 32768, "--depth");
    out.service_level = small(t.service_level, 0, 15, "--service-level");
    out.traffic_class = small(t.traffic_class, 0, 255, "--traffic-class");
    out.pkey_index = small(t.pkey_index, 0, 65535, "--pkey-index");
    out.retry_count = small(t.retry_count, 0, 7, "--retry-count");
    out.retry_timeout = small(t.retry_timeout, 0, 31, "--retry-timeout");
    out.relaxed_ordering = choose(t.relaxed, "--relaxed-ordering", kSwitch);
    out.registration = choose(t.registration, "--reg", kRegistrations);
    out.rows = choose(t.rows, "--rows", kRows);
    out.staging_limit = parse_bytes(t.staging, "--staging-limit");
    if (!t.region.empty()) out.region_bytes = parse_bytes(t.region, "--region-bytes");
}

}  // namespace

std::function<void()> add_verbs_options(CLI::App& app, VerbsOptions& out) {
    const auto texts = std::make_shared<Texts>();
    const std::string group = "RDMA (--transport verbs)";
    const auto add = [&](const char* flag, std::string& text, const char* help) {
        CLI::Option* const option = app.add_option(flag, text, help)->group(group);
        if (!text.empty()) option->capture_default_str();
    };
    add("--nic", texts->nics, "devices of this rank, mlx5_0,mlx5_1:2 (default: the nearest)");
    add("--gid-index", texts->gid_index,
        "GID (default: RoCEv2 IPv4, then global IPv6, then link-local)");
    add("--qps", texts->qps, "queue pairs per peer and device pair");
    add("--chunk", texts->chunk, "most bytes of a work request");
    add("--depth", texts->depth, "work requests outstanding per queue pair");
    add("--rows", texts->rows, "short rows: direct, gather, pack, unpack, or auto (measured)");
    add("--staging-limit", texts->staging,
        "most memory a rank for packed and unpacked rows; and, whatever the transport, for "
        "strategies "
        "that stage");
    add("--reg", texts->registration, "GPU memory: dmabuf, peermem, or auto");
    add("--region-bytes", texts->region, "most bytes of a memory region (default: the device's)");
    add("--relaxed-ordering", texts->relaxed, "on, off");
    add("--service-level", texts->service_level, "InfiniBand service level");
    add("--traffic-class", texts->traffic_class, "RoCE traffic class (DSCP x 4)");
    add("--pkey-index", texts->pkey_index, "partition key");
    add("--retry-count", texts->retry_count, "tries until a peer counts as lost");
    add("--retry-timeout", texts->retry_timeout, "of a try: 4.096 us x 2^n");
    return [texts, &out] { fill(*texts, out); };
}

nlohmann::ordered_json verbs_json(const VerbsOptions& o, bool with_own) {
    nlohmann::ordered_json json{{"chunk_bytes", o.chunk},
                                {"depth", o.depth},
                                {"rows", name_of(o.rows, kRows)},
                                {"staging_limit_bytes", o.staging_limit},
                                {"registration", name_of(o.registration, kRegistrations)},
                                {"region_bytes", o.region_bytes},
                                {"relaxed_ordering", o.relaxed_ordering},
                                {"service_level", o.service_level},
                                {"traffic_class", o.traffic_class},
                                {"pkey_index", o.pkey_index},
                                {"retry_count", o.retry_count},
                                {"retry_timeout", o.retry_timeout}};
    if (with_own) {
        json["nics"] = o.nics;
        json["gid_index"] = o.gid_index;
        json["qps"] = o.qps;
    }
    return json;
}

}  // namespace weightlift::app
