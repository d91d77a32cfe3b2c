#include "push_options.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weightlift/base/error.hpp"
#include "weightlift/base/hash.hpp"
#include "weightlift/memory/registry.hpp"
#include "weightlift/transport/registry.hpp"

#include "prediction_text.hpp"
#include "text.hpp"
#include "verbs_options.hpp"

namespace weightlift::app {

using memory::DeviceMemory;
using memory::MemoryKind;
using session::Injection;
using session::Order;
using session::Verify;
using transport::NcclMode;

namespace {

/// "flip=RANK:BYTE", "drop=N", "delay=RANK:MS", "kill=RANK:PUSH", "key=RANK", "short=RANK".
void parse_injection(const std::string& text, Injection& out) {
    const auto equals = text.find('=');
    const std::string kind = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    constexpr std::uint64_t kMost = ~std::uint64_t{0};
    if (kind == "drop") {
        out.drop = parse_number(value, 1, kMost, "--inject drop");
        return;
    }
    constexpr std::uint64_t kRanks = 1'000'000;
    if (kind == "key" || kind == "short") {
        (kind == "key" ? out.wrong_key : out.short_region) =
            static_cast<int>(parse_number(value, 0, kRanks, "--inject rank"));
        return;
    }
    const auto colon = value.find(':');
    if (colon == std::string::npos || (kind != "flip" && kind != "delay" && kind != "kill"))
        throw ConfigError(fmt::format(
            "--inject {}: not flip=RANK:BYTE, drop=N, delay=RANK:MS, kill=RANK:PUSH, key=RANK or "
            "short=RANK",
            text));
    const int rank =
        static_cast<int>(parse_number(value.substr(0, colon), 0, kRanks, "--inject rank"));
    constexpr std::uint64_t kDay = 86'400'000;
    const std::uint64_t number =
        parse_number(value.substr(colon + 1), 0, kind == "delay" ? kDay : kMost, "--inject value");
    if (kind == "flip") out.flip = {rank, number};
    if (kind == "delay") out.delay = {rank, std::chrono::milliseconds(number)};
    if (kind == "kill") out.kill = {rank, number};
}

constexpr std::array<std::pair<std::string_view, DeviceMemory>, 2> kDeviceMemory{
    {{"malloc", DeviceMemory::Malloc}, {"vmm", DeviceMemory::Vmm}}};

constexpr std::array<std::pair<std::string_view, NcclMode>, 2> kNcclModes{
    {{"sendrecv", NcclMode::SendRecv}, {"put", NcclMode::Put}}};

void fill_memory(const std::string& kind, const std::string& device_memory, const std::string& gpu,
                 session::PushOptions& out) {
    const auto kinds = memory::memory_kinds();
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
        throw_not_one_of(kind, "--memory", kinds);
    out.memory = memory::parse_memory_kind(kind);
    out.device_memory = choose(device_memory, "--device-memory", kDeviceMemory);
    constexpr std::uint64_t kMost = 1023;
    if (!gpu.empty()) out.gpu = static_cast<int>(parse_number(gpu, 0, kMost, "--gpu"));
}

std::string known_transports() {
    return fmt::format("auto, {}", fmt::join(transport::transport_names(), ", "));
}

}  // namespace

Parsed parse_push(const Arguments& arguments, PushArguments& out) {
    std::string strategy = "direct", order = "rotated", verify = "fingerprint";
    std::string window = "64MiB", slice = "256KiB", timeout = "60s", interval = "0s", duration;
    std::string iterations = "20", warmup = "2";
    std::string memory = "host", device_memory = "malloc", gpu, nccl_mode = "sendrecv";
    std::vector<std::string> injections, references;
    CLI::App app("push weights from trainer ranks to rollout ranks, verify and record",
                 "mpirun -n RANKS weightlift push");
    add_scene_options(app, out.scene);
    app.add_option("--roles", out.roles, "trainer:0-7,rollout:8-23 (default: trainers first)");
    app.add_option("--role", out.role, "trainer or rollout: this program of mpirun's colon form");
    app.add_option("--strategy", strategy,
                   "direct, replica, broadcast, relay, or auto: the fastest by the simulator")
        ->capture_default_str();
    app.add_option("--order", order, "plan, or rotated: sources begin at different destinations")
        ->capture_default_str();
    app.add_option("--window", window, "most bytes outstanding per destination")
        ->capture_default_str();
    app.add_option("--min-slice", slice, "smallest slice a region is cut into")
        ->capture_default_str();
    app.add_option("--transport", out.push.transport, known_transports())->capture_default_str();
    app.add_option("--memory", memory, fmt::format("{}", fmt::join(memory::memory_kinds(), ", ")))
        ->capture_default_str();
    app.add_option("--device-memory", device_memory,
                   "how GPU memory is allocated: malloc, vmm (virtual memory management)")
        ->capture_default_str();
    app.add_option("--gpu", gpu,
                   "GPU of this rank, among those it sees (default: by its number on the node)");
    app.add_option("--iterations", iterations, "timed pushes")->capture_default_str();
    app.add_option("--warmup", warmup, "pushes before them")->capture_default_str();
    app.add_option("--interval", interval, "pause between pushes")->capture_default_str();
    app.add_option("--duration", duration, "push for this long instead of counting iterations");
    app.add_option("--verify", verify, "none, fingerprint, full (compare every byte)")
        ->capture_default_str();
    app.add_option("--timeout", timeout, "deadline of each phase")->capture_default_str();
    app.add_option("--output", out.output,
                   "results file; %j is the Slurm job id (default: results/<model>-<time>.h5)");
    app.add_option("--cluster", out.cluster, "rates for the floor: shipped name or TOML file");
    app.add_option("--labels", out.labels, "text stored with the run");
    app.add_option(
           "--reference", references,
           "memcpy: also time a plain copy of the same bytes by each trainer; or a JSON file "
           "of bounds by case and metric: exit code 7 where one is not kept (may be repeated)")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_option("--min-line", out.gates.min_line,
                   "exit code 7 where portbw is below this share of the --cluster's port rate");
    app.add_option("--max-time", out.gates.max_time, "exit code 7 where the p50 is longer");
    app.add_option("--nccl-mode", nccl_mode,
                   "nccl: sendrecv, or put: long ranges one-sided (NCCL 2.29, --device-memory vmm)")
        ->capture_default_str();
    const auto fill_verbs = add_verbs_options(app, out.push.verbs);
    app.add_flag("--preflight", out.has_preflight,
                 "first check this run's machines, as doctor does; exit code 3 where one fails");
    app.add_flag("--json", out.as_json, "machine-readable summary on stdout instead of the table");
    app.add_flag("--quiet", out.is_quiet, "no table, no progress");
    app.add_option(
           "--inject", injections,
           "tests only: flip=RANK:BYTE drop=N delay=RANK:MS kill=RANK:PUSH key=RANK short=RANK")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group("");
    if (parse_arguments(app, arguments) == Parsed::HelpShown) return Parsed::HelpShown;

    out.has_auto_strategy = strategy == "auto";
    if (out.has_auto_strategy && out.cluster.empty())
        throw ConfigError("--strategy auto: needs --cluster, whose rates it predicts with");
    if (!out.has_auto_strategy) out.push.strategy = parse_strategy(strategy);
    fill_memory(memory, device_memory, gpu, out.push);
    out.push.order =
        choose<Order, 2>(order, "--order", {{{"plan", Order::Plan}, {"rotated", Order::Rotated}}});
    out.push.verify = choose<Verify, 3>(
        verify, "--verify",
        {{{"none", Verify::None}, {"fingerprint", Verify::Fingerprint}, {"full", Verify::Full}}});
    out.push.window = parse_bytes(window, "--window");
    if (out.push.window == 0) throw ConfigError("--window 0: must be at least one byte");
    out.push.minimum_slice = parse_bytes(slice, "--min-slice");
    out.push.timeout = parse_duration(timeout, "--timeout");
    if (out.push.timeout < std::chrono::milliseconds(10))
        throw ConfigError(fmt::format("--timeout {}: must be at least 10ms", timeout));
    fill_verbs();
    out.push.nccl.mode = choose(nccl_mode, "--nccl-mode", kNcclModes);
    if (out.push.nccl.mode == NcclMode::Put && out.push.transport != "nccl")
        throw ConfigError(
            fmt::format("--nccl-mode put: needs --transport nccl, not {}", out.push.transport));
    if (out.push.nccl.mode == NcclMode::Put && strategy != "direct")
        throw ConfigError(
            fmt::format("--nccl-mode put: needs --strategy direct, not {}", strategy));
    out.push.staging_limit = out.push.verbs.staging_limit;
    out.push.trainer_stages = trainer_stages(out.scene);
    out.interval = parse_duration(interval, "--interval");
    if (!duration.empty()) {
        out.duration = parse_duration(duration, "--duration");
        if (out.duration.count() == 0)
            throw ConfigError(fmt::format("--duration {}: must be longer than nothing", duration));
    }
    constexpr std::uint64_t kMost = 100'000'000;
    out.iterations = parse_number(iterations, 1, kMost, "--iterations");
    out.warmup = parse_number(warmup, 0, kMost, "--warmup");
    for (const std::string& text : references) {
        if (text == "memcpy")
            out.has_reference = true;
        else if (out.gates.references.empty())
            out.gates.references = text;
        else
            throw ConfigError(
                fmt::format("--reference {}: {} is given already", text, out.gates.references));
    }
    if (out.has_reference && out.push.memory != MemoryKind::Host)
        throw ConfigError(fmt::format(
            "--reference memcpy copies host memory, and --memory is {}: leave it out", memory));
    static_cast<void>(parse_gates(out.gates));
    if (!out.gates.min_line.empty() && out.cluster.empty())
        throw ConfigError(fmt::format("--min-line {}: needs --cluster, which knows the port rate",
                                      out.gates.min_line));
    for (const std::string& text : injections) parse_injection(text, out.push.inject);
    if (!out.role.empty() && out.role != "trainer" && out.role != "rollout")
        throw ConfigError(fmt::format("--role {}: not trainer or rollout", out.role));
    if (!out.role.empty() && !out.roles.empty())
        throw ConfigError("--role and --roles exclude each other");
    if (out.push.transport != "auto")
        static_cast<void>(transport::transport_capabilities(out.push.transport));
    if (out.as_json && out.is_quiet) throw ConfigError("--json and --quiet exclude each other");
    return Parsed::Run;
}

namespace {

nlohmann::ordered_json to_json(const PushArguments& a, bool with_own) {
    const auto ns = [](std::chrono::nanoseconds d) { return d.count(); };
    nlohmann::ordered_json json{
        {"layers", a.scene.layers.value_or(0)},
        {"mtp", a.scene.with_mtp},
        {"dtype", a.scene.dtype},
        {"order", a.push.order == Order::Rotated ? "rotated" : "plan"},
        {"window_bytes", a.push.window},
        {"min_slice_bytes", a.push.minimum_slice},
        {"transport", a.push.transport},
        {"memory", memory::to_string(a.push.memory)},
        {"device_memory", a.push.device_memory == DeviceMemory::Vmm ? "vmm" : "malloc"},
        {"nccl_mode", a.push.nccl.mode == NcclMode::Put ? "put" : "sendrecv"},
        {"iterations", a.iterations},
        {"warmup", a.warmup},
        {"interval_ns", ns(a.interval)},
        {"duration_ns", ns(a.duration)},
        {"timeout_ns", ns(a.push.timeout)},
        {"roles", a.roles},
        {"cluster", a.cluster},
        {"verbs", verbs_json(a.push.verbs, with_own)}};
    if (with_own && a.push.gpu) json["gpu"] = *a.push.gpu;
    return json;
}

}  // namespace

std::string options_json(const PushArguments& a) { return to_json(a, true).dump(); }

std::vector<std::pair<std::string, std::uint64_t>> digests_of(const PushArguments& a) {
    const auto& inject = a.push.inject;
    // Injected faults steer collective calls as well.
    const std::string faults =
        fmt::format("{}|{}|{}|{}", inject.drop, inject.flip ? inject.flip->first : -1,
                    inject.delay ? inject.delay->first : -1, inject.kill ? inject.kill->first : -1);
    return {{"--model", hash_name(a.scene.model)},
            {"--trainer", hash_name(a.scene.trainer)},
            {"--rollout", hash_name(fmt::format("{}", fmt::join(a.scene.rollouts, "+")))},
            {"--strategy",
             mix(a.has_auto_strategy ? 1U : 0U, static_cast<std::uint64_t>(a.push.strategy))},
            {"--transport", hash_name(a.push.transport)},
            {"--verify", static_cast<std::uint64_t>(a.push.verify)},
            {"--reference", mix(a.has_reference ? 1U : 0U, hash_name(a.gates.references))},
            {"--min-line", hash_name(a.gates.min_line)},
            {"--max-time", hash_name(a.gates.max_time)},
            {"--preflight", a.has_preflight ? 1U : 0U},
            {"--inject", hash_name(faults)},
            {"the rest of the command line", hash_name(to_json(a, false).dump())}};
}

}  // namespace weightlift::app
