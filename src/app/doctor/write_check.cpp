#include "write_check.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/memory/arena.hpp"
#include "weightlift/transport/registry.hpp"

namespace weightlift::app::doctor {
namespace {

using session::AgreedError;
using session::Agreement;
using transport::RegionKey;

constexpr Bytes kBytes = MiB;  // sent from the first half of an arena into the second
constexpr int kKeyTag = 31500;

std::byte pattern(int rank, Bytes offset) {
    const auto seed = splitmix64(static_cast<std::uint64_t>(rank) + 1);
    return static_cast<std::byte>(splitmix64(seed + offset / 8) >> (offset % 8 * 8));
}

/// Who this rank writes to and who writes to it; equal to the rank itself: nobody.
struct Neighbours {
    int next = 0, previous = 0;
};

/// A ring over the ranks that `takes_part` in rank order.
Neighbours ring(int rank, int size, auto&& takes_part) {
    std::vector<int> members;
    for (int r = 0; r < size; ++r)
        if (takes_part(r)) members.push_back(r);
    const auto at =
        static_cast<std::size_t>(std::find(members.begin(), members.end(), rank) - members.begin());
    if (at == members.size()) return {rank, rank};
    const std::size_t n = members.size();
    return {members[(at + 1) % n], members[(at + n - 1) % n]};
}

/// One transport, opened, used once and closed.
class Trial {
public:
    Trial(const Ward& ward, std::string_view transport, Neighbours neighbours,
          const transport::VerbsOptions& options, const std::string& rail)
        : agreement_(ward.agreement),
          neighbours_(neighbours),
          transport_name_(transport),
          phase_(fmt::format("write by {}{}{}", transport, rail.empty() ? "" : " over ", rail)),
          arena_(memory::make_host_arena(2 * kBytes)) {
        const auto rank = static_cast<std::size_t>(agreement_.world().rank());
        context_.world = &agreement_.world();
        context_.watchdog = &ward.watchdog;
        context_.timeout = agreement_.timeout();
        context_.label = [this](int r) { return agreement_.label(r); };
        context_.local_rank = ward.topology.local_rank[rank];
        context_.local_size =
            ward.topology.node_size[static_cast<std::size_t>(ward.topology.node[rank])];
        context_.verbs = options;
    }
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;

    /// Returns what is wrong with the bytes that arrived; empty: nothing.
    std::string run() {
        const auto& world = agreement_.world();
        const char* const phase = phase_.c_str();
        RegionKey mine;
        std::map<int, mpi::Bytestring> keys;
        agreement_.run(phase, [&](const mpi::Deadline&) {
            transport_ = transport::make_transport(transport_name_, context_);
            mine = transport_->register_memory(*arena_);
        });
        agreement_.run(phase, [&](const mpi::Deadline& deadline) {
            keys = exchange(world, mine, deadline, phase);
        });
        agreement_.run(phase,
                       [&](const mpi::Deadline&) { transport_->connect(links(world.size())); });
        agreement_.run(phase, [&](const mpi::Deadline&) {
            push_ = transport_->prepare(plan(keys));
            for (Bytes i = 0; i < kBytes; ++i) arena_->data()[i] = pattern(world.rank(), i);
            std::fill_n(arena_->data() + kBytes, kBytes, std::byte{0xff});
        });
        agreement_.run(phase, [&](const mpi::Deadline& deadline) {
            push_->start(1, 1);
            while (!push_->test()) {
                world.listen();
                if (deadline.passed()) world.expire(deadline, phase, waited_for());
                ::sched_yield();
            }
        });
        // What was sent is gone before anybody looks at what arrived.
        std::fill_n(arena_->data(), kBytes, std::byte{0});
        agreement_.run(phase, [](const mpi::Deadline&) {});
        std::string wrong = receives() ? first_wrong() : "";
        push_.reset();
        transport_.reset();
        return wrong;
    }

private:
    [[nodiscard]] bool sends() const { return neighbours_.next != agreement_.world().rank(); }
    [[nodiscard]] bool receives() const {
        return neighbours_.previous != agreement_.world().rank();
    }

    [[nodiscard]] std::map<int, mpi::Bytestring> exchange(const mpi::Communicator& world,
                                                          const RegionKey& mine,
                                                          const mpi::Deadline& deadline,
                                                          const char* phase) const {
        std::map<int, mpi::Bytestring> outgoing;
        std::vector<int> from;
        if (receives()) {
            auto& bytes = outgoing[neighbours_.previous];
            bytes.resize(sizeof mine);
            std::memcpy(bytes.data(), &mine, sizeof mine);
        }
        if (sends()) from.push_back(neighbours_.next);
        return world.exchange(outgoing, from, kKeyTag, deadline, phase);
    }

    [[nodiscard]] transport::LinkTable links(int size) const {
        transport::LinkTable links;
        if (sends()) links.destinations.push_back({neighbours_.next, kBytes});
        if (receives()) links.sources.push_back({neighbours_.previous, kBytes});
        std::vector<int> all(static_cast<std::size_t>(size));
        for (int r = 0; r < size; ++r) all[static_cast<std::size_t>(r)] = r;
        links.engine_groups.push_back(std::move(all));
        return links;
    }

    [[nodiscard]] transport::BoundPlan plan(const std::map<int, mpi::Bytestring>& keys) const {
        transport::BoundPlan plan;
        if (receives()) plan.sources.push_back(neighbours_.previous);
        if (!sends()) return plan;
        transport::Destination next{neighbours_.next, 2 * kBytes, {}};
        const auto& bytes = keys.at(neighbours_.next);
        if (bytes.size() != sizeof next.key)
            throw TransportError(fmt::format("{} sent a key of {} bytes, not {}",
                                             agreement_.label(neighbours_.next), bytes.size(),
                                             sizeof next.key));
        std::memcpy(&next.key, bytes.data(), sizeof next.key);
        plan.destinations.push_back(next);
        plan.copies.push_back({0, 0, kBytes, kBytes, kBytes, 1, kBytes});
        return plan;
    }

    [[nodiscard]] std::string waited_for() const {
        const auto pending = push_->pending();
        return pending.empty() ? std::string("its end")
                               : fmt::format("{}", agreement_.label(pending.front()));
    }

    [[nodiscard]] std::string first_wrong() const {
        Bytes wrong = 0, first = 0;
        for (Bytes i = kBytes; i-- > 0;)
            if (arena_->data()[kBytes + i] != pattern(neighbours_.previous, i)) {
                ++wrong;
                first = i;
            }
        if (wrong == 0) return "";
        return fmt::format("{}: {} of {} bytes from {} are wrong, the first at {}", phase_, wrong,
                           kBytes, agreement_.label(neighbours_.previous), first);
    }

    const Agreement& agreement_;
    Neighbours neighbours_;
    std::string transport_name_, phase_;
    transport::Context context_;
    // The Push is destroyed before its transport, that before its arena.
    std::unique_ptr<memory::Arena> arena_;
    std::unique_ptr<transport::Transport> transport_;
    std::unique_ptr<transport::Push> push_;
};

class Writes {
public:
    explicit Writes(const Ward& ward) : ward_(ward) {}

    [[nodiscard]] std::vector<Finding> through(std::string_view transport) const;
    [[nodiscard]] std::vector<Finding> over_rails(const std::vector<std::string>& rails,
                                                  const transport::VerbsOptions& verbs) const;

private:
    [[nodiscard]] int rank() const { return ward_.agreement.world().rank(); }
    [[nodiscard]] int size() const { return ward_.agreement.world().size(); }
    /// What went wrong, if anything did.
    [[nodiscard]] std::optional<Finding> attempt(const std::string& check,
                                                 std::string_view transport, Neighbours neighbours,
                                                 const transport::VerbsOptions& options,
                                                 const std::string& rail) const;

    const Ward& ward_;
};

std::vector<Finding> Writes::through(std::string_view transport) const {
    const transport::Capabilities can = transport::transport_capabilities(transport);
    const std::string check = fmt::format("write by {}", transport);
    if (!can.host_memory)
        return {{check, Verdict::Skip, "moves GPU memory alone; this check is of host memory", ""}};
    const bool is_local = can.same_host_only;
    const auto& node = ward_.topology.node;
    const auto own = node[static_cast<std::size_t>(rank())];
    const Neighbours neighbours = ring(rank(), size(), [&](int r) {
        return !is_local || node[static_cast<std::size_t>(r)] == own;
    });
    if (auto bad = attempt(check, transport, neighbours, {}, "")) return {*bad};
    if (neighbours.next == rank())
        return {{check, Verdict::Skip, "no other rank on this host", ""}};
    return {{check, Verdict::Ok,
             fmt::format("{} to the next rank{}, every byte right", show_binary(kBytes),
                         is_local ? " of the host" : ""),
             ""}};
}

std::vector<Finding> Writes::over_rails(const std::vector<std::string>& rails,
                                        const transport::VerbsOptions& verbs) const {
    const std::string check = "write by verbs";
    const mpi::Deadline deadline(ward_.agreement.timeout());
    const auto& world = ward_.agreement.world();
    const int own = narrow<int>(rails.size(), "rails");
    if (world.min(own, deadline, check.c_str()) == 0)
        return {{check, Verdict::Skip, "not every rank has a usable RDMA port", ""}};
    const int rounds = world.max(own, deadline, check.c_str());
    std::vector<Finding> out;
    std::vector<std::string> right;
    const Neighbours neighbours = ring(rank(), size(), [](int) { return true; });
    for (int round = 0; round < rounds; ++round) {
        // Rail i goes with rail i; a rank that has fewer uses some again.
        const std::string& rail = rails[static_cast<std::size_t>(round % own)];
        transport::VerbsOptions options = verbs;
        options.nics = {rail};
        if (auto bad = attempt(check, "verbs", neighbours, options, rail))
            out.push_back(*bad);
        else if (std::find(right.begin(), right.end(), rail) == right.end())
            right.push_back(rail);
    }
    if (!right.empty() && out.size() < static_cast<std::size_t>(rounds))
        out.push_back({check, Verdict::Ok,
                       fmt::format("{} over {} to the next rank, every byte right",
                                   show_binary(kBytes), fmt::join(right, ", ")),
                       ""});
    return out;
}

std::optional<Finding> Writes::attempt(const std::string& check, std::string_view transport,
                                       Neighbours neighbours,
                                       const transport::VerbsOptions& options,
                                       const std::string& rail) const {
    try {
        Trial trial(ward_, transport, neighbours, options, rail);
        const std::string wrong = trial.run();
        if (wrong.empty()) return std::nullopt;
        return Finding{check, Verdict::Fail, wrong,
                       "trust no data of this machine until memory, IOMMU and ACS are checked"};
    } catch (const AgreedError& error) {
        // Its text is on rank 0 alone, and speaks for all.
        return Finding{check, Verdict::Fail, error.what(),
                       fmt::format("a push by --transport {} would fail alike", transport), true};
    }
}

}  // namespace

std::vector<Finding> check_writes(const Ward& ward, const std::vector<std::string>& rails,
                                  const Asked& asked) {
    const Writes writes(ward);
    std::vector<Finding> out;
    for (const std::string_view transport : transport::transport_names()) {
        if (asked.transport != "auto" && asked.transport != transport) continue;
        auto found = transport == "verbs" ? writes.over_rails(rails, asked.verbs)
                                          : writes.through(transport);
        for (Finding& finding : found)
            if (!finding.is_joint || ward.agreement.world().rank() == 0)
                out.push_back(std::move(finding));
    }
    return out;
}

}  // namespace weightlift::app::doctor
