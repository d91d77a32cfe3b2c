// What a results file says of a session.
#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/mpi/message.hpp"

#include "state.hpp"

namespace weightlift::session {

namespace {

struct RankTotals {
    Bytes payload = 0, weights = 0, staging = 0;
    Bytes sent = 0, received = 0;  ///< to and from other ranks
    std::uint64_t transfers = 0, copies = 0;
    std::array<std::uint64_t, record::kSetupPhases> setup{};
};

/// What a rank says of its devices, as bytes.
mpi::Bytestring attachments(const std::vector<Lane>& lanes, const std::string& passed_over,
                            const std::optional<cuda::Device>& gpu) {
    mpi::Writer out;
    out.put(passed_over);
    out.put(gpu ? gpu->uuid : std::string());
    out.put(gpu ? gpu->pci : std::string());
    out.put(static_cast<std::uint32_t>(lanes.size()));
    for (const Lane& lane : lanes) {
        const transport::Attachment a = lane.transport->attachment();
        for (const std::string& text : {a.nic, a.registration, a.rows, a.staging}) out.put(text);
        out.put(a.gid_index);
        out.put(a.mtu);
    }
    return out.take();
}

void read_attachments(std::span<const std::byte> bytes, record::RankInfo& rank,
                      std::vector<record::Event>& events) {
    mpi::Reader in(bytes, "description of a rank");
    std::string passed_over;
    std::uint32_t lanes = 0;
    in.get(passed_over);
    in.get(rank.gpu_uuid);
    in.get(rank.gpu_pci);
    in.get(lanes);
    if (!passed_over.empty()) events.push_back({"", "fallback", passed_over, rank.rank});
    for (std::uint32_t l = 0; l < lanes; ++l) {
        transport::Attachment a;
        for (std::string* text : {&a.nic, &a.registration, &a.rows, &a.staging}) in.get(*text);
        in.get(a.gid_index);
        in.get(a.mtu);
        if (!a.rows.empty()) events.push_back({"", "rows", a.rows, rank.rank});
        if (!a.staging.empty()) events.push_back({"", "staging slots", a.staging, rank.rank});
        if (a.nic.empty()) continue;
        rank.nic = a.nic;
        rank.registration = a.registration;
        rank.gid_index = a.gid_index;
        rank.mtu = a.mtu;
    }
}

struct Traffic {
    Rank src = 0, dst = 0;
    std::uint32_t lane = 0;
    std::uint32_t reserved = 0;
    Bytes bytes = 0;
};

std::string_view to_string(Verify verify) {
    switch (verify) {
        case Verify::None: return "none";
        case Verify::Fingerprint: return "fingerprint";
        case Verify::Full: return "full";
    }
    return "?";
}

}  // namespace

Session::Description Session::describe() const {
    const State& s = *state_;
    const mpi::Deadline deadline(s.options.timeout);
    RankTotals mine;
    std::vector<Traffic> traffic;
    for (std::size_t l = 0; l < s.lanes.size(); ++l)
        for (const auto& link : s.lanes[l].links.destinations) {
            if (link.rank != s.rank) mine.sent += link.bytes;
            traffic.push_back(
                {s.plan_rank, s.plan_of(link.rank), static_cast<std::uint32_t>(l), 0, link.bytes});
        }
    for (const auto& [peer, bytes] : s.bytes_from)
        if (peer != s.rank) mine.received += bytes;
    mine.payload = s.payload;
    mine.weights = s.store.bytes();
    mine.staging = s.staging;
    mine.transfers = s.transfers;
    mine.copies = s.copies;
    mine.setup = s.setup_ns;

    const auto totals = s.world().gather(mine, deadline, "describe");
    const auto rows =
        s.world().gather_strings(std::as_bytes(std::span(traffic)), deadline, "describe");
    const auto attached =
        s.world().gather_strings(attachments(s.lanes, s.passed_over, s.gpu), deadline, "describe");
    Description out;
    if (s.rank != 0) return out;

    record::CaseInfo& info = out.info;
    for (std::size_t r = 0; r < totals.size(); ++r) {
        const RankTotals& t = totals[r];
        info.bytes += t.payload;
        out.staging = std::max(out.staging, t.staging);
        info.wire_bytes += t.sent;
        info.port_bytes = std::max({info.port_bytes, t.sent, t.received});
        info.transfers += t.transfers;
        info.copies += t.copies;
        out.setup_ns.push_back(t.setup);

        record::RankInfo rank;
        const Rank plan = s.plan_of(static_cast<int>(r));
        const bool is_trainer = plan < s.inputs.roles.trainers;
        rank.role = layout::to_string(is_trainer ? layout::Side::Trainer : layout::Side::Rollout);
        rank.rank = static_cast<std::int32_t>(r);
        rank.plan_rank = plan;
        if (!is_trainer) {
            rank.engine = s.inputs.rollout.engine_of(plan - s.inputs.roles.trainers);
            rank.engine_rank = s.inputs.rollout.engine_rank_of(plan - s.inputs.roles.trainers);
        }
        rank.host = s.inputs.topology.hosts[r];
        rank.node = s.inputs.topology.node[r];
        rank.local_rank = s.inputs.topology.local_rank[r];
        rank.registration = "arena";
        rank.weight_bytes = t.weights;
        read_attachments(attached[r], rank, out.events);
        out.ranks.push_back(std::move(rank));
    }
    std::vector<Bytes> lane_bytes(s.lanes.size(), 0);
    for (const auto& bytes : rows) {
        std::vector<Traffic> list(bytes.size() / sizeof(Traffic));
        // A rank that sends nothing has nothing to copy, and null pointers.
        if (!list.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
        for (const Traffic& t : list) {
            lane_bytes[t.lane] += t.bytes;
            out.traffic.push_back({t.src, t.dst, s.lanes[t.lane].name, t.bytes});
        }
    }
    // What was really used, not what was asked for.
    std::vector<std::string> used;
    for (std::size_t l = 0; l < s.lanes.size(); ++l)
        if (lane_bytes[l] > 0 || s.lanes.size() == 1) used.push_back(s.lanes[l].name);

    info.model = s.inputs.model.name();
    info.trainer = s.inputs.trainer.description();
    info.rollout = s.inputs.rollout.description();
    info.strategy = plan::to_string(s.options.strategy);
    info.transport = fmt::format("{}", fmt::join(used, "+"));
    info.verify = to_string(s.options.verify);
    info.memory = memory::to_string(s.options.memory);
    info.key = fmt::format("{}/{}/{}/{}/{}", info.model, info.trainer, info.rollout, info.strategy,
                           info.transport);
    info.parameters = s.inputs.model.parameter_count();
    info.unique_bytes = s.inputs.model.bytes();
    info.plan_digest = s.digest;
    return out;
}

std::vector<record::NicRow> Session::nic_traffic() const {
    const State& s = *state_;
    mpi::Writer out;
    for (const Lane& lane : s.lanes) {
        const transport::Attachment attachment = lane.transport->attachment();
        for (const auto& one : attachment.traffic) {
            out.put(one.nic);
            out.put(one.completed);
            out.put(one.counted.value_or(record::kNotMeasured));
        }
    }
    const auto all = s.world().gather_strings(out.take(), mpi::Deadline(s.options.timeout),
                                              "traffic of devices");
    std::vector<record::NicRow> rows;
    for (std::size_t r = 0; r < all.size(); ++r) {
        mpi::Reader in(all[r], "list of devices");
        while (in.left() > 0) {
            record::NicRow& row = rows.emplace_back();
            row.rank = static_cast<std::int32_t>(r);
            in.get(row.nic);
            in.get(row.completed);
            in.get(row.counted);
        }
    }
    return rows;
}

}  // namespace weightlift::session
