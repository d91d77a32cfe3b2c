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
    work_ = split_copies(plan.copies, destinations_.size(), parts_.rules);
    batches_of_.resize(destinations_.size());
    for (const Batch& batch : work_.batches) ++batches_of_[batch.destination];
    left_.resize(destinations_.size());
    if (work_.batches.empty()) return;
    lanes_ = std::vector<Lane>(kEngineLanes + 1);
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
    next_ = 0;
    left_ = batches_of_;
    destinations_left_ = destinations_.size();
    if (!lanes_.empty()) {
        const DeviceGuard guard(device_);
        post();
    }
    for (std::uint32_t d = 0; d < left_.size(); ++d)
        if (left_[d] == 0) notify(d);
    state_ = State::Running;
}

bool CudaIpcPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    state_ = State::Dead;  // where the next throws
    if (destinations_left_ > 0) {
        const DeviceGuard guard(device_);
        collect();
        post();
    }
    arrivals_.look();
    const bool done = destinations_left_ == 0 && arrivals_.are_all_here();
    state_ = done ? State::Idle : State::Running;
    return done;
}

/// In the plan's order, each batch to the engine with the least to do.
void CudaIpcPush::post() {
    while (next_ < work_.batches.size()) {
        const Batch& batch = work_.batches[next_];
        const auto engines = lanes_.begin() + kEngineLanes;
        auto lane = engines;
        if (!batch.is_kernel)
            lane = std::min_element(lanes_.begin(), engines, [](const Lane& a, const Lane& b) {
                return a.outstanding() < b.outstanding();
            });
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
            if (--left_[batch.destination] == 0) notify(batch.destination);
        }
}

void CudaIpcPush::notify(std::uint32_t destination) {
    // The event has come after every byte; a reader that acquires this sees them.
    parts_.regions[destination]->epochs().write(
        parts_.rank, {.epoch = static_cast<std::uint32_t>(epoch_), .is_done = true});
    --destinations_left_;
}

std::vector<int> CudaIpcPush::pending() const {
    if (state_ == State::Idle) return {};
    std::vector<int> peers = arrivals_.waiting();
    for (std::size_t d = 0; d < left_.size(); ++d)
        if (left_[d] > 0) peers.push_back(destinations_[d]);
    std::sort(peers.begin(), peers.end());
    return peers;
}

}  // namespace weightlift::transport::cuda_ipc
