#include "push.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../strided.hpp"
#include "stream_copy.hpp"

namespace weightlift::transport::shm {
namespace {

constexpr Bytes kSlice = 4 * MiB;  // half a millisecond; the turn between two costs well under 1 %

/// Maps the pages that will be written now, not by a fault each in the first push.
void populate(const std::vector<Copy>& copies, std::uint32_t destination, std::byte* region) {
    const auto page = static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
    std::vector<std::pair<Bytes, Bytes>> spans;
    for (const Copy& copy : copies)
        if (copy.destination == destination && copy.bytes() > 0)
            spans.emplace_back(copy.dst_offset / page * page,
                               copy.dst_offset + (copy.rows - 1) * copy.dst_pitch + copy.row_bytes);
    std::sort(spans.begin(), spans.end());
    Bytes done = 0;
    for (const auto& [begin, end] : spans) {
        const Bytes from = std::max(begin, done);
        if (from >= end) continue;
        done = round_up(end, page);
#ifdef MADV_POPULATE_WRITE
        (void)::madvise(region + from, done - from, MADV_POPULATE_WRITE);  // else by faults
#endif
    }
}

}  // namespace

ShmPush::ShmPush(BoundPlan plan, Parts parts)
    : plan_(std::move(plan)),
      parts_(std::move(parts)),
      arrivals_(parts_.own.epochs(), plan_.sources, plan_.signals, parts_.arrived, "shm",
                parts_.label) {
    check_bounds(plan_, parts_.own.arena().bytes(), parts_.label);
    if (parts_.slice == 0) parts_.slice = kSlice;
    for (Copy& copy : plan_.copies) copy = join_rows(copy);
    last_.resize(plan_.destinations.size());
    sent_.resize(plan_.destinations.size());
    for (std::size_t i = 0; i < plan_.segments.size(); ++i)
        last_[plan_.segments[i].destination] = i + 1;
    if (plan_.segments.empty())
        for (std::size_t i = 0; i < plan_.copies.size(); ++i)
            last_[plan_.copies[i].destination] = i + 1;
    notify_order_.resize(last_.size());
    std::iota(notify_order_.begin(), notify_order_.end(), 0U);
    std::stable_sort(notify_order_.begin(), notify_order_.end(),
                     [this](auto a, auto b) { return last_[a] < last_[b]; });
    for (const std::uint32_t d : notify_order_)
        populate(plan_.copies, d, parts_.regions[d]->data());
}

void ShmPush::start(std::uint64_t /*version*/, std::uint64_t epoch) {
    WEIGHTLIFT_ENSURES(state_ == State::Idle);
    state_ = State::Dead;  // where the next throws
    arrivals_.start(epoch);
    state_ = State::Running;
    epoch_ = epoch;
    cursor_ = {};
    allowed_ = plan_.segments.empty() ? plan_.copies.size() : 0;
    allowed_segments_ = placed_ = notified_ = 0;
    std::fill(sent_.begin(), sent_.end(), 0U);
}

void ShmPush::allow(std::size_t end) {
    WEIGHTLIFT_ENSURES(state_ == State::Running && end <= plan_.segments.size());
    if (end > 0) allowed_ = std::max(allowed_, plan_.segments[end - 1].end);
    allowed_segments_ = end;
}

bool ShmPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    if (cursor_.copy < allowed_) {
        const Bytes moved = advance(parts_.slice);
        order_stores();
        completed_ += moved;
    }
    signal();
    notify();
    state_ = State::Dead;  // where the next throws
    arrivals_.look();
    const bool done = notified_ == notify_order_.size() && arrivals_.are_all_here();
    state_ = done ? State::Idle : State::Running;
    return done;
}

Bytes ShmPush::advance(Bytes budget) {
    const std::byte* const from = parts_.own.arena().data();
    Bytes moved = 0;
    while (cursor_.copy < allowed_ && moved < budget) {
        const Copy& copy = plan_.copies[cursor_.copy];
        const Bytes left = budget - moved;
        if (copy.bytes() > 0) {
            const std::byte* const src = from + copy.src_offset + cursor_.row * copy.src_pitch;
            std::byte* const dst = parts_.regions[copy.destination]->data() + copy.dst_offset +
                                   cursor_.row * copy.dst_pitch;
            if (copy.rows == 1 || cursor_.byte > 0 || copy.row_bytes > left) {
                const Bytes n = std::min(left, copy.row_bytes - cursor_.byte);
                stream_bytes(dst + cursor_.byte, src + cursor_.byte, n);
                moved += n;
                cursor_.byte += n;
                if (cursor_.byte < copy.row_bytes) break;
                cursor_.byte = 0;
                ++cursor_.row;
            } else {
                const std::uint64_t n = std::min(copy.rows - cursor_.row, left / copy.row_bytes);
                stream_rows(dst, copy.dst_pitch, src, copy.src_pitch, n, copy.row_bytes);
                moved += n * copy.row_bytes;
                cursor_.row += n;
            }
            if (cursor_.row < copy.rows) continue;
        }
        cursor_ = {cursor_.copy + 1, 0, 0};
    }
    return moved;
}

// order_stores() came before what follows is written: every byte is placed.
void ShmPush::signal() {
    for (; placed_ < allowed_segments_ && plan_.segments[placed_].end <= cursor_.copy; ++placed_) {
        const std::uint32_t d = plan_.segments[placed_].destination;
        note(d, {.epoch = static_cast<std::uint32_t>(epoch_), .segments = ++sent_[d]});
    }
}

void ShmPush::notify() {
    const std::size_t done = plan_.segments.empty() ? cursor_.copy : placed_;
    for (; notified_ < notify_order_.size(); ++notified_) {
        const std::uint32_t d = notify_order_[notified_];
        if (last_[d] > done) return;
        note(d, {static_cast<std::uint32_t>(epoch_), sent_[d], true});
    }
}

std::vector<int> ShmPush::pending() const {
    if (state_ == State::Idle) return {};
    std::vector<int> peers = arrivals_.waiting();
    for (std::size_t i = notified_; i < notify_order_.size(); ++i)
        peers.push_back(plan_.destinations[notify_order_[i]].rank);
    std::sort(peers.begin(), peers.end());
    return peers;
}

}  // namespace weightlift::transport::shm
