#include "sender.hpp"

#include <algorithm>
#include <cerrno>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "../strided.hpp"

namespace weightlift::transport::verbs {
namespace {

/// A send queue is counted in slots of 64 bytes: 32 bytes of header, 16 an entry.
std::uint32_t queue_slots(std::uint64_t entries) {
    return static_cast<std::uint32_t>((2 + entries + 3) / 4);
}

}  // namespace

Sender::Sender(Channel& channel, std::uint32_t target, Bytes batch_bytes)
    : channel_(&channel), target_(target), batch_bytes_(batch_bytes) {}

std::uint32_t Sender::slots_of(const Request& request) const {
    return queue_slots(request.pieces());
}

void Sender::add(const Request& request) {
    const auto index = static_cast<std::uint32_t>(requests_.size());
    const std::uint32_t slots = slots_of(request);
    const bool is_alone = request.is_packed || request.is_parcel || request.is_signal;
    const auto most = static_cast<std::uint32_t>(std::max(1, channel_->pair->shape().sends / 4));
    const bool fits = !batches_.empty() && !is_alone && !batches_.back().is_alone() &&
                      batches_.back().slots + slots <= most &&
                      batches_.back().bytes + request.bytes() <= batch_bytes_;
    if (!fits) batches_.push_back({.first = index});
    Batch& batch = batches_.back();
    ++batch.count;
    batch.slots += slots;
    batch.bytes += request.bytes();
    batch.is_packed = request.is_packed;
    batch.is_parcel = request.is_parcel;
    batch.is_signal = request.is_signal;
    if (request.is_packed) ++packed_;
    if (request.is_signal) signals_.push_back(batches_.size() - 1);
    if (request.is_parcel)
        parcels_.push_back(
            {request.dst_offset, request.dst_pitch, request.rows, request.row_bytes});
    requests_.push_back(request);
}

void Sender::seal(const Addresses& at) {
    arena_ = at.arena.base;
    if (packs()) staging_ = at.staging.base + at.staging_offset;
    slot_ = at.slot;
    std::size_t entries = 0;
    for (const Request& request : requests_) entries += request.pieces();
    entries_.reserve(entries);  // work_ points into it
    work_.resize(requests_.size() + 1);
    std::size_t packed = 0, parcel = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
        const Request& request = requests_[i];
        ibv_send_wr& work = work_[i];
        work = {};
        work.wr_id = pack_id({Kind::Send, channel_->id, static_cast<std::uint32_t>(i)});
        if (request.is_signal) {
            work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            continue;
        }
        const std::size_t first = entries_.size();
        if (request.is_packed) {
            entries_.push_back(
                at.staging.entry(at.staging_offset + packed++ % kSlots * slot_, request.bytes()));
        } else if (request.pieces() == 1) {
            entries_.push_back(at.arena.entry(request.src_offset, request.bytes()));
        } else {
            for (std::uint64_t row = 0; row < request.rows; ++row)
                entries_.push_back(at.arena.entry(request.src_offset + row * request.src_pitch,
                                                  request.row_bytes));
        }
        work.sg_list = &entries_[first];
        work.num_sge = static_cast<int>(entries_.size() - first);
        work.opcode = IBV_WR_RDMA_WRITE;
        const RemoteMemory& memory = request.is_parcel ? at.parcels : at.region;
        Bytes offset = request.dst_offset;
        if (request.is_parcel) {
            offset = at.parcels_offset + parcel % kSlots * at.parcels_slot;
            work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            work.imm_data = htonl(parcel_notice(parcel++));
        }
        work.wr.rdma.remote_addr = memory.base + offset;
        work.wr.rdma.rkey = memory.key(channel_->peer_rail, offset);
        if (at.is_host_memory &&
            request.bytes() <= static_cast<Bytes>(channel_->pair->shape().inline_bytes))
            work.send_flags |= IBV_SEND_INLINE;
    }
    // The notice: no bytes, after all others of this queue pair.
    Batch notice{
        .first = static_cast<std::uint32_t>(requests_.size()), .count = 1, .slots = queue_slots(0)};
    ibv_send_wr& work = work_.back();
    work = {};
    work.wr_id = pack_id({Kind::Send, channel_->id, notice.first});
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    batches_.push_back(notice);
    for (const Batch& batch : batches_) {
        for (std::uint32_t i = 0; i + 1 < batch.count; ++i)
            work_[batch.first + i].next = &work_[batch.first + i + 1];
        work_[batch.first + batch.count - 1].send_flags |= IBV_SEND_SIGNALED;
    }
}

void Sender::start(std::uint64_t epoch) {
    next_ = done_ = 0;
    resume_ = slots_used_ = 0;
    packed_posted_ = 0;
    packed_under_way_ = 0;
    is_packed_ = false;
    allowed_ = signals_done_ = 0;
    for (std::size_t i = 0; i < signals_.size(); ++i)
        work_[batches_[signals_[i]].first].imm_data = htonl(signal_notice(epoch, i));
    work_.back().imm_data = htonl(notice_of(epoch));
}

bool Sender::post() {
    const Batch& batch = batches_[next_];
    const auto depth = static_cast<std::uint32_t>(channel_->pair->shape().sends);
    if (resume_ == 0) {
        if (slots_used_ > 0 && slots_used_ + batch.slots > depth) return false;
        if (batch.is_packed && packed_under_way_ == kSlots) return false;
        if (batch.is_parcel && channel_->unanswered >= kSlots) return false;
        if (batch.is_signal && channel_->unanswered >= kSignals) return false;
        if (batch.is_packed && !is_packed_) {
            const Request& request = requests_[batch.first];
            copy_rows(staging_ + packed_posted_ % kSlots * slot_, request.row_bytes,
                      arena_ + request.src_offset, request.src_pitch, request.rows,
                      request.row_bytes);
            is_packed_ = true;
        }
    }
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(channel_->pair->get(), &work_[batch.first + resume_], &bad);
    if (error != 0) {
        resume_ = static_cast<std::uint32_t>(bad - work_.data()) - batch.first;
        // The queue is full: it goes on once something has completed.
        if (error == ENOMEM && slots_used_ > 0) return false;
        throw system_error("cannot post a " + describe(batch.first + resume_), error);
    }
    resume_ = 0;
    is_packed_ = false;
    slots_used_ += batch.slots;
    if (batch.is_packed) {
        ++packed_posted_;
        ++packed_under_way_;
    }
    if (batch.is_parcel || batch.is_signal) ++channel_->unanswered;
    ++next_;
    return true;
}

Bytes Sender::complete(std::uint32_t index) {
    WEIGHTLIFT_ENSURES(done_ < next_);
    const Batch& batch = batches_[done_];
    WEIGHTLIFT_ENSURES(index == batch.first + batch.count - 1);
    ++done_;
    slots_used_ -= batch.slots;
    if (batch.is_packed) --packed_under_way_;
    if (batch.is_signal) ++signals_done_;
    return batch.bytes;
}

std::string Sender::describe(std::uint32_t index) const {
    if (index >= requests_.size()) return "notice of the end";
    const Request& request = requests_[index];
    if (request.is_signal) return "signal of a segment";
    return fmt::format("write of {} to byte {}", human_bytes(request.bytes()), request.dst_offset);
}

}  // namespace weightlift::transport::verbs
