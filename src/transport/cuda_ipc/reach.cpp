#include "reach.hpp"

#include <cstring>
#include <map>
#include <optional>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/error.hpp"
#include "weightlift/mpi/message.hpp"

#include "../ranks.hpp"
#include "region.hpp"

namespace weightlift::transport::cuda_ipc {
namespace {

constexpr int kKeyTag = 31021;
constexpr int kKnockTag = 31022;
constexpr int kVerdictTag = 31023;
/// A line for each writer would do; a mapping is of 2 MiB at least.
constexpr Bytes kProbeBytes = 64 * KiB;
const char* const kPhase = "trial of GPU mappings";

using Messages = std::map<int, mpi::Bytestring>;

template <class T>
Messages to_all(const std::vector<int>& ranks, const T& value) {
    mpi::Writer out;
    out.put(value);
    Messages messages;
    const mpi::Bytestring bytes = out.take();
    for (const int rank : ranks) messages.emplace(rank, bytes);
    return messages;
}

/// Writes there and reads it back.
void try_out(const RemoteRegion& region, int device, std::uint64_t mark) {
    const cuda::DeviceGuard guard(device);
    std::uint64_t seen = 0;
    const auto at = reinterpret_cast<std::uint64_t*>(region.data());
    cuda::check(cudaMemcpy(at, &mark, sizeof mark, cudaMemcpyHostToDevice), "cudaMemcpy");
    cuda::check(cudaMemcpy(&seen, at, sizeof seen, cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (seen != mark) throw TransportError("what was written through the mapping is not there");
}

/// One writer's trial of one destination.
class Trial {
public:
    Trial(int rank, const Context& context, const RegionKey& told) : rank_(rank) {
        guarded([&] {
            key_ =
                checked_key({rank, kProbeBytes, told}, context.world->size(), context.label(rank));
            if (key_->door != DoorName{})
                call_.emplace(key_->door, "cuda_ipc", context.label(rank));
        });
    }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] const std::string& why() const { return why_; }
    /// Whether the destination must hand out its memory's descriptor.
    [[nodiscard]] bool has_knocked() const { return call_.has_value(); }

    void map(const Context& context, const mpi::Deadline& deadline) {
        if (!why_.empty()) return;
        guarded([&] {
            const Descriptor fd = call_ ? call_->take(deadline) : Descriptor(-1);
            const RemoteRegion region(*key_, fd.get(), context.cuda.device, context.label(rank_));
            try_out(region, context.cuda.device, 0x5eed0000U + static_cast<unsigned>(rank_));
        });
    }

private:
    template <class Work>
    void guarded(Work work) {
        try {
            work();
        } catch (const Error& error) {
            why_ = error.what();
        }
    }
    int rank_;
    std::optional<Key> key_;
    std::optional<FdCall> call_;
    std::string why_;
};

}  // namespace

std::vector<Unreached> find_unreached(const Context& context, const LinkTable& links) {
    const mpi::Deadline deadline(context.timeout);
    const mpi::Communicator& world = *context.world;
    const std::vector<int> sources = ranks_of(links.sources);
    const std::vector<int> destinations = ranks_of(links.destinations);
    std::unique_ptr<memory::Arena> probe;
    std::optional<LocalRegion> own;
    RegionKey key;
    if (!sources.empty()) {
        probe = memory::make_cuda_arena(kProbeBytes, context.cuda);
        own.emplace(*probe, world.rank(), world.size());
        key = pack_key(own->key());
    }
    auto told = world.exchange(to_all(sources, key), destinations, kKeyTag, deadline, kPhase);
    std::vector<Trial> trials;
    Messages knocks;
    for (auto& [rank, bytes] : told) {
        RegionKey theirs;
        mpi::Reader(bytes, kPhase).get(theirs);
        const Trial& trial = trials.emplace_back(rank, context, theirs);
        knocks.merge(to_all({rank}, static_cast<std::uint8_t>(trial.has_knocked())));
    }
    std::size_t callers = 0;
    for (auto& [rank, bytes] : world.exchange(knocks, sources, kKnockTag, deadline, kPhase)) {
        std::uint8_t has_knocked = 0;
        mpi::Reader(bytes, kPhase).get(has_knocked);
        callers += has_knocked;
    }
    if (own) own->serve(callers, deadline);
    std::vector<Unreached> unreached;
    Messages verdicts;
    for (Trial& trial : trials) {
        trial.map(context, deadline);
        if (!trial.why().empty()) unreached.push_back({trial.rank(), trial.why()});
        mpi::Writer out;
        out.put(trial.why());
        verdicts.emplace(trial.rank(), out.take());
    }
    // Mappings are closed by now: the probe may go once all have said so.
    for (auto& [rank, bytes] : world.exchange(verdicts, sources, kVerdictTag, deadline, kPhase)) {
        std::string why;
        mpi::Reader(bytes, kPhase).get(why);
        if (!why.empty()) unreached.push_back({rank, std::move(why)});
    }
    return unreached;
}

}  // namespace weightlift::transport::cuda_ipc
