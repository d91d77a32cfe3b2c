#include "push.hpp"

#include <algorithm>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/error.hpp"

#include "../copy_kernel.hpp"
#include "../ranks.hpp"

namespace weightlift::transport::cuda_ipc {
namespace {

using cuda::check;
using cuda::DeviceGuard;

}  // namespace

void CudaIpcPush::Lane::push(std::size_t index, Bytes bytes) {
    WEIGHTLIFT_ENSURES(!is_full());
    Slot& slot = slots_[(first_ + count_++) % kDepth];
    slot.event.record(stream_);
    slot.batch = index;
    slot.bytes = bytes;
    outstanding_ += bytes;
}

std::optional<std::size_t> CudaIpcPush::Lane::pop() {
    if (count_ == 0 || !slots_[first_].event.is_done()) return std::nullopt;
    const Slot& slot = slots_[first_];
    first_ = (first_ + 1) % kDepth;
    --count_;
    outstanding_ -= slot.bytes;
    return slot.batch;
}

CudaIpcPush::CudaIpcPush(const BoundPlan& plan, Parts parts)
    : parts_(std::move(parts)),
      destinations_(ranks_of(plan.destinations)),
      arrivals_(parts_.own.epochs(), plan.sources, plan.signals, parts_.arrived, "cuda_ipc",
                parts_.label),
      device_(parts_.own.device()) {
    const DeviceGuard guard(device_);
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device_),
          "cudaDeviceGetAttribute");
    work_ = split_segments(plan.copies, plan.segments, destinations_.size(), parts_.rules);
    for (const Segment& segment : plan.segments) segments_.push_back({segment.destination});
    tasks_of_.resize(destinations_.size());
    for (const Batch& batch : work_.batches)
        if (segments_.empty())
            ++tasks_of_[batch.destination];
        else
            ++segments_[batch.needs - 1].batches;
    for (const Held& segment : segments_) ++tasks_of_[segment.destination];
    left_.resize(destinations_.size());
    signalled_.resize(destinations_.size());
    batches_left_.resize(segments_.size());
    if (work_.batches.empty()) return;
    lanes_ = std::vector<Lane>(kEngineLanes + (segments_.empty() ? 1 : kKernelLanesOfSegments));
    const std::size_t bytes = work_.pieces.size() * sizeof(Piece);
    if (bytes == 0) return;
    pieces_ = memory::make_cuda_arena(bytes, {.device = device_});
    check(cudaMemcpy(pieces_->data(), work_.pieces.data(), bytes, cudaMemcpyHostToDevice),
          "cudaMemcpy");
}

CudaIpcPush::~CudaIpcPush() {
    try {
        const DeviceGuard guard(device_);
        // Given up half-way: what the engines have begun must not arrive in a later push. They wait
        // for nobody.
        if (state_ != State::Idle)
            for (const Lane& lane : lanes_) lane.stream().synchronize();
        lanes_.clear();
        pieces_.reset();
    } catch (const Error& error) {
        fmt::print(stderr, "weightlift: {}\n", error.what());
    }
}

void CudaIpcPush::start(std::uint64_t /*version*/, std::uint64_t epoch) {
    WEIGHTLIFT_ENSURES(state_ == State::Idle);
    state_ = State::Dead;  // where the next throws
    arrivals_.start(epoch);
    epoch_ = epoch;
    next_ = allowed_ = placed_ = 0;
    left_ = tasks_of_;
    std::fill(signalled_.begin(), signalled_.end(), 0U);
    for (std::size_t i = 0; i < segments_.size(); ++i) batches_left_[i] = segments_[i].batches;
    destinations_left_ = destinations_.size();
    if (!lanes_.empty()) {
        const DeviceGuard guard(device_);
        post();
    }
    for (std::uint32_t d = 0; d < left_.size(); ++d)
        if (left_[d] == 0) notify(d);
    state_ = State::Running;
}

void CudaIpcPush::allow(std::size_t end) {
    WEIGHTLIFT_ENSURES(allowed_ <= end && end <= segments_.size());
    allowed_ = end;
}

bool CudaIpcPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    state_ = State::Dead;  // where the next throws
    if (destinations_left_ > 0) {
        const DeviceGuard guard(device_);
        collect();
        signal();
        post();
    }
    arrivals_.look();
    const bool done = destinations_left_ == 0 && arrivals_.are_all_here();
    state_ = done ? State::Idle : State::Running;
    return done;
}

/// In the plan's order, each batch to the lane with the least to do.
void CudaIpcPush::post() {
    while (next_ < work_.batches.size() && work_.batches[next_].needs <= allowed_) {
        const Batch& batch = work_.batches[next_];
        const auto kernels = lanes_.begin() + kEngineLanes;
        const auto lane = std::min_element(
            batch.is_kernel ? kernels : lanes_.begin(), batch.is_kernel ? lanes_.end() : kernels,
            [](const Lane& a, const Lane& b) { return a.outstanding() < b.outstanding(); });
        if (lane->is_full()) return;
        put(batch, *lane);
        lane->push(next_++, batch.bytes);
    }
}

void CudaIpcPush::put(const Batch& batch, const Lane& lane) const {
    const std::byte* const src = parts_.own.arena().data();
    std::byte* const dst = parts_.regions[batch.destination]->data();
    const auto stream = lane.stream().get();
    if (batch.is_kernel) {
        const auto* const pieces = reinterpret_cast<const Piece*>(pieces_->data());
        launch_copy(stream, multiprocessors_, pieces + batch.first, batch.count, src, dst);
        return;
    }
    for (std::size_t i = batch.first; i < batch.first + batch.count; ++i) {
        const Copy& op = work_.ops[i];
        if (op.rows == 1)
            check(cudaMemcpyAsync(dst + op.dst_offset, src + op.src_offset, op.row_bytes,
                                  cudaMemcpyDeviceToDevice, stream),
                  "cudaMemcpyAsync");
        else
            check(cudaMemcpy2DAsync(dst + op.dst_offset, op.dst_pitch, src + op.src_offset,
                                    op.src_pitch, op.row_bytes, op.rows, cudaMemcpyDeviceToDevice,
                                    stream),
                  "cudaMemcpy2DAsync");
    }
}

void CudaIpcPush::collect() {
    for (Lane& lane : lanes_)
        while (const auto index = lane.pop()) {
            const Batch& batch = work_.batches[*index];
            completed_ += batch.bytes;
            if (!segments_.empty())
                --batches_left_[batch.needs - 1];
            else if (--left_[batch.destination] == 0)
                notify(batch.destination);
        }
}

// One after the other, so that a count means a destination's first segments: lanes overtake.
void CudaIpcPush::signal() {
    for (; placed_ < allowed_ && batches_left_[placed_] == 0; ++placed_) {
        const std::uint32_t destination = segments_[placed_].destination;
        ++signalled_[destination];
        if (--left_[destination] == 0)
            notify(destination);
        else
            note(destination, false);
    }
}

void CudaIpcPush::note(std::uint32_t destination, bool is_done) const {
    // Events have come after every byte; a reader that acquires this sees them.
    parts_.regions[destination]->epochs().write(
        parts_.rank, {static_cast<std::uint32_t>(epoch_), signalled_[destination], is_done});
}

void CudaIpcPush::notify(std::uint32_t destination) {
    note(destination, true);
    --destinations_left_;
}

std::vector<int> CudaIpcPush::pending() const {
    if (state_ == State::Idle) return {};
    std::vector<int> peers = arrivals_.waiting();
    for (std::size_t d = 0; d < left_.size(); ++d)
        if (left_[d] > 0) peers.push_back(destinations_[d]);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
}

}  // namespace weightlift::transport::cuda_ipc
