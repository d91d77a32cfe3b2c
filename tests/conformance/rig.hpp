// One rank's part of a small push between ranks of the test: who writes what to whom is a list that
// all ranks have, so that each can say what must be where.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/cuda/device.hpp"
#include "weightlift/memory/registry.hpp"
#include "weightlift/mpi/communicator.hpp"
#include "weightlift/transport/registry.hpp"

#include "staging.hpp"
#include "support/arena_bytes.hpp"

namespace weightlift::transport {

/// A copy between two ranks of the world; copy.destination is not used.
struct Move {
    int src = 0;
    int dst = 0;
    Copy copy;
};

/// A segment of src's list, allowed once all it waits for has been placed at src.
struct Step {
    struct Wait {
        int source = 0;  ///< src itself: segments of its own list, wherever they go
        std::uint32_t count = 0;
    };
    int src = 0;
    int dst = 0;
    std::uint32_t round = 0;
    std::vector<Copy> copies{};
    std::vector<Wait> waits{};
};

struct Scenario {
    Bytes arena_bytes = 0;
    std::vector<Move> moves;
    Bytes window = 0, slice = 0, max_message = 0;
    std::vector<Step> steps{};  ///< instead of moves; rounds ascend
    std::uint32_t broadcast_from = 0;
};

/// Byte of the pattern that `rank`'s memory holds before the push of `epoch`.
inline std::byte pattern(int rank, std::uint64_t epoch, Bytes offset) {
    const std::uint64_t seed = mix(static_cast<std::uint64_t>(rank) + 1, epoch);
    return static_cast<std::byte>(splitmix64(seed + offset / 8) >> (offset % 8 * 8));
}

/// WEIGHTLIFT_TEST_MEMORY: host (where it is not set), cuda or cuda-vmm.
inline std::string tested_memory() {
    const char* const asked = std::getenv("WEIGHTLIFT_TEST_MEMORY");
    return asked == nullptr ? "host" : asked;
}

/// Where memory is of a GPU: the one that this rank would take in a push.
inline memory::CudaOptions tested_gpu(int rank) {
    if (tested_memory() == "host") return {};
    const auto gpus = static_cast<int>(cuda::devices().size());
    return {cuda::choose_device(rank, gpus), tested_memory() == "cuda-vmm"
                                                 ? memory::DeviceMemory::Vmm
                                                 : memory::DeviceMemory::Malloc};
}

inline std::unique_ptr<memory::Arena> make_tested_arena(Bytes bytes, int rank) {
    const auto kind =
        tested_memory() == "host" ? memory::MemoryKind::Host : memory::MemoryKind::Cuda;
    return memory::make_arena(kind, bytes, {.cuda = tested_gpu(rank)});
}

/// Why a transport cannot be tested here; empty: it can.
inline std::string cannot_test(std::string_view transport) {
    const Capabilities can = transport_capabilities(transport);
    if (!(tested_memory() == "host" ? can.host_memory : can.cuda_memory))
        return std::string(transport) + " does not move " + tested_memory() + " memory";
    if (tested_memory() != "host" && cuda::devices().empty()) return cuda::why_no_devices();
    const int ranks = mpi::Communicator::world().size();
    if (const auto gpus = cuda::devices().size();
        can.one_rank_per_gpu && std::cmp_less(gpus, ranks))
        return std::string(transport) + " needs a GPU for each of the " + std::to_string(ranks) +
               " ranks; there are " + std::to_string(gpus);
    return transport_problem(transport, Context{});
}

/// WEIGHTLIFT_TEST_NCCL_MODE: sendrecv (where it is not set), or put.
inline NcclOptions tested_nccl() {
    const char* const asked = std::getenv("WEIGHTLIFT_TEST_NCCL_MODE");
    return {asked != nullptr && std::string_view(asked) == "put" ? NcclMode::Put
                                                                 : NcclMode::SendRecv};
}

inline mpi::Deadline soon() { return mpi::Deadline(std::chrono::seconds(60)); }

class Rig {
public:
    Rig(std::string_view transport, Scenario scenario)
        : scenario_(std::move(scenario)),
          world_(mpi::Communicator::world()),
          arena_(make_tested_arena(scenario_.arena_bytes, world_.rank())) {
        transport_ = make_transport(
            transport, Context{.world = &world_,
                               .watchdog = &watchdog_,
                               .timeout = std::chrono::seconds(60),
                               .label = [](int r) { return "rank " + std::to_string(r); },
                               .slice = scenario_.slice,
                               .max_message = scenario_.max_message,
                               .shares_staging = shares_staging(world_.rank()),
                               .nccl = tested_nccl(),
                               .cuda = tested_gpu(world_.rank())});
        const RegionKey mine = transport_->register_memory(*arena_);
        for (const RegionKey& key : world_.gather(mine, soon(), "keys")) keys_.push_back(key);
        mpi::Bytestring all(keys_.size() * sizeof(RegionKey));
        if (!all.empty()) std::memcpy(all.data(), keys_.data(), all.size());
        world_.broadcast(all, soon(), "keys");
        keys_.resize(all.size() / sizeof(RegionKey));
        std::memcpy(keys_.data(), all.data(), all.size());
        transport_->connect(links());
    }

    [[nodiscard]] const mpi::Communicator& world() const { return world_; }
    [[nodiscard]] int rank() const { return world_.rank(); }
    [[nodiscard]] memory::Arena& arena() { return *arena_; }
    [[nodiscard]] Transport& transport() { return *transport_; }
    [[nodiscard]] bool writes() const { return !plan().destinations.empty(); }
    [[nodiscard]] bool is_written() const { return !plan().sources.empty(); }

    /// This rank's part; destinations ascend, also those that get no byte.
    [[nodiscard]] BoundPlan plan() const {
        BoundPlan plan;
        plan.window = scenario_.window;
        plan.broadcast_from = scenario_.broadcast_from;
        std::map<int, std::uint32_t> index;
        std::map<int, std::uint32_t> signals;
        for (const Move& move : scenario_.moves) {
            if (move.src == rank()) index.try_emplace(move.dst);
            if (move.dst == rank()) plan.sources.push_back(move.src);
        }
        for (const Step& step : scenario_.steps) {
            if (step.src == rank()) index.try_emplace(step.dst);
            if (step.dst == rank()) ++signals[step.src];
        }
        for (const auto& [source, count] : signals) {
            plan.sources.push_back(source);
            plan.signals.push_back(count);
        }
        for (auto& [dst, i] : index) {
            i = static_cast<std::uint32_t>(plan.destinations.size());
            plan.destinations.push_back(
                {dst, scenario_.arena_bytes, keys_[static_cast<std::size_t>(dst)]});
        }
        for (const Move& move : scenario_.moves) {
            if (move.src != rank()) continue;
            plan.copies.push_back(move.copy);
            plan.copies.back().destination = index.at(move.dst);
        }
        for (const Step& step : scenario_.steps) {
            if (step.src != rank()) continue;
            for (const Copy& copy : step.copies) {
                plan.copies.push_back(copy);
                plan.copies.back().destination = index.at(step.dst);
            }
            plan.segments.push_back({plan.copies.size(), index.at(step.dst), step.round});
        }
        std::sort(plan.sources.begin(), plan.sources.end());
        plan.sources.erase(std::unique(plan.sources.begin(), plan.sources.end()),
                           plan.sources.end());
        return plan;
    }

    [[nodiscard]] Bytes bytes_written() const {
        Bytes bytes = 0;
        for (const Move& move : scenario_.moves)
            if (move.src == rank()) bytes += move.copy.bytes();
        for (const Step& step : scenario_.steps)
            for (const Copy& copy : step.copies)
                if (step.src == rank()) bytes += copy.bytes();
        return bytes;
    }

    void fill(std::uint64_t epoch) {
        std::vector<std::byte> bytes(arena_->bytes());
        for (Bytes i = 0; i < bytes.size(); ++i) bytes[i] = pattern(rank(), epoch, i);
        upload(*arena_, bytes);
        world_.barrier(soon(), "filled");
    }

    static void finish(Push& push) {
        const auto deadline = soon();
        while (!push.test()) {
            if (deadline.passed()) throw DeadlineError("push not done after a minute");
            ::sched_yield();
        }
    }

    /// Allows each of this rank's segments once what it waits for has been placed.
    class Gates {
    public:
        Gates(const Rig& rig, Push& push) : push_(push), sources_(rig.plan().sources) {
            for (const Step& step : rig.scenario_.steps)
                if (step.src == rig.rank()) list_.push_back(&step);
            rank_ = rig.rank();
        }
        void open() {
            const std::size_t before = allowed_;
            while (allowed_ < list_.size() && is_open(*list_[allowed_])) ++allowed_;
            if (allowed_ > before) push_.allow(allowed_);
        }

    private:
        [[nodiscard]] bool is_open(const Step& step) const {
            return std::all_of(
                step.waits.begin(), step.waits.end(), [this](const Step::Wait& wait) {
                    if (wait.source == rank_) return push_.placed() >= wait.count;
                    const auto at = std::find(sources_.begin(), sources_.end(), wait.source);
                    return push_.signals_from(static_cast<std::size_t>(at - sources_.begin())) >=
                           wait.count;
                });
        }
        Push& push_;
        std::vector<int> sources_;
        std::vector<const Step*> list_;
        std::size_t allowed_ = 0;
        int rank_ = 0;
    };

    void drive(Push& push) const {
        const auto deadline = soon();
        Gates gates(*this, push);
        if (!scenario_.steps.empty()) gates.open();
        while (!push.test()) {
            if (!scenario_.steps.empty()) gates.open();
            if (deadline.passed()) throw DeadlineError("push not done after a minute");
            ::sched_yield();
        }
    }

    /// Fills, pushes, overwrites what was sent and only then looks at what arrived.
    void push_and_check(Push& push, std::uint64_t epoch) {
        fill(epoch);
        push.start(epoch, epoch);
        drive(push);
        if (!is_written()) upload(*arena_, std::vector<std::byte>(arena_->bytes()));
        world_.barrier(soon(), "sources overwritten");
        if (is_written()) check(epoch);
        world_.barrier(soon(), "checked");
    }

    void check(std::uint64_t epoch) {
        std::vector<std::byte> expected = after_steps(epoch);
        for (const auto& [src, dst, copy] : scenario_.moves) {
            if (dst != rank()) continue;
            for (std::uint64_t row = 0; row < copy.rows; ++row)
                for (Bytes i = 0; i < copy.row_bytes; ++i)
                    expected[copy.dst_offset + row * copy.dst_pitch + i] =
                        pattern(src, epoch, copy.src_offset + row * copy.src_pitch + i);
        }
        const std::vector<std::byte> actual = download(*arena_);
        const auto [wrong, right] = std::mismatch(actual.begin(), actual.end(), expected.begin());
        EXPECT_EQ(wrong - actual.begin(), static_cast<std::ptrdiff_t>(actual.size()))
            << "first wrong byte of rank " << rank() << " in epoch " << epoch;
    }

private:
    /// Every rank that nobody writes to is a trainer, every other an engine of its own; with steps
    /// all are one engine.
    [[nodiscard]] LinkTable links() const {
        LinkTable links;
        std::map<int, Bytes> to, from;
        std::vector<bool> is_rollout(static_cast<std::size_t>(world_.size()), false);
        for (const Move& move : scenario_.moves) {
            if (move.src == rank()) to[move.dst] += move.copy.bytes();
            if (move.dst == rank()) from[move.src] += move.copy.bytes();
            is_rollout[static_cast<std::size_t>(move.dst)] = true;
        }
        for (const Step& step : scenario_.steps)
            for (auto* const side : {&to, &from}) {
                const bool is_sent = side == &to;
                if ((is_sent ? step.src : step.dst) != rank()) continue;
                Bytes& bytes = (*side)[is_sent ? step.dst : step.src];
                for (const Copy& copy : step.copies) bytes += copy.bytes();
            }
        for (const auto& [peer, bytes] : to) links.destinations.push_back({peer, bytes});
        for (const auto& [peer, bytes] : from) links.sources.push_back({peer, bytes});
        if (!scenario_.steps.empty()) {
            links.engine_groups.emplace_back();
            for (int r = 0; r < world_.size(); ++r) links.engine_groups[0].push_back(r);
        }
        for (int rollout = 0; rollout < world_.size(); ++rollout) {
            if (!is_rollout[static_cast<std::size_t>(rollout)]) continue;
            std::vector<int> group;
            for (int r = 0; r < world_.size(); ++r)
                if (r == rollout || !is_rollout[static_cast<std::size_t>(r)]) group.push_back(r);
            if (std::binary_search(group.begin(), group.end(), rank()))
                links.engine_groups.push_back(group);
        }
        return links;
    }

    /// What is in this rank's memory where all steps are executed one after the other.
    [[nodiscard]] std::vector<std::byte> after_steps(std::uint64_t epoch) const {
        std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(world_.size()));
        for (int r = 0; r < world_.size(); ++r) {
            auto& bytes = all[static_cast<std::size_t>(r)];
            bytes.resize(scenario_.arena_bytes);
            for (Bytes i = 0; i < bytes.size(); ++i) bytes[i] = pattern(r, epoch, i);
        }
        for (const Step& step : scenario_.steps)
            for (const Copy& copy : step.copies)
                for (std::uint64_t row = 0; row < copy.rows; ++row)
                    std::copy_n(all[static_cast<std::size_t>(step.src)].data() + copy.src_offset +
                                    row * copy.src_pitch,
                                copy.row_bytes,
                                all[static_cast<std::size_t>(step.dst)].data() + copy.dst_offset +
                                    row * copy.dst_pitch);
        return all[static_cast<std::size_t>(rank())];
    }

    Scenario scenario_;
    mpi::Communicator world_;
    mpi::Watchdog watchdog_;
    std::unique_ptr<memory::Arena> arena_;
    std::unique_ptr<Transport> transport_;
    std::vector<RegionKey> keys_;
};

}  // namespace weightlift::transport
