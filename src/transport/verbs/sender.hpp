// What one queue pair sends in a push: work requests prepared once, posted batch by batch.
#pragma once

#include <cstdint>
#include <vector>

#include "connections.hpp"
#include "requests.hpp"

namespace weightlift::transport::verbs {

/// Rows of a parcel, as its receiver cuts them out of a staging slot.
struct Parcel {
    Bytes dst_offset = 0, dst_pitch = 0;
    std::uint64_t rows = 0;
    Bytes row_bytes = 0;
    [[nodiscard]] Bytes bytes() const { return rows * row_bytes; }
};

/// The three meanings of the 32 bits that arrive with a completion.
inline constexpr std::uint32_t kParcelBit = 0x80000000, kSignalBit = 0x40000000;
[[nodiscard]] constexpr std::uint32_t notice_of(std::uint64_t epoch) {
    return static_cast<std::uint32_t>(epoch) & ~(kParcelBit | kSignalBit);
}
[[nodiscard]] constexpr std::uint32_t signal_notice(std::uint64_t epoch, std::size_t index) {
    return kSignalBit | (static_cast<std::uint32_t>(epoch) & 0x3ff) << 20 |
           (static_cast<std::uint32_t>(index) & 0xfffff);
}
[[nodiscard]] constexpr std::uint32_t parcel_notice(std::size_t index) {
    return kParcelBit | (static_cast<std::uint32_t>(index) & ~kParcelBit);
}

class Sender {
public:
    /// `batch_bytes`: most payload bytes between two completions.
    Sender(Channel& channel, std::uint32_t target, Bytes batch_bytes);

    void add(const Request& request);
    /// After the last add. Addresses: the arena, staging here for packed requests (kSlots slots of
    /// `slot` bytes; `staging_offset` is the first), the peer's region and its staging for parcels.
    struct Addresses {
        LocalMemory arena, staging;
        Bytes staging_offset = 0, slot = 0;
        bool is_host_memory = true;  ///< of the arena: only the processor's own can be inlined
        const RemoteMemory& region;
        const RemoteMemory& parcels;
        Bytes parcels_offset = 0, parcels_slot = 0;
    };
    void seal(const Addresses& at);

    [[nodiscard]] std::uint32_t target() const { return target_; }
    [[nodiscard]] const std::vector<Parcel>& parcels() const { return parcels_; }
    [[nodiscard]] bool packs() const { return packed_ > 0; }

    void start(std::uint64_t epoch);
    /// Lets requests be posted up to the next signal; after the last one, all.
    void allow_segment() { ++allowed_; }
    /// Whether the next batch is not allowed yet.
    [[nodiscard]] bool is_held() const {
        return allowed_ < signals_.size() && (allowed_ == 0 || next_ > signals_[allowed_ - 1]);
    }
    /// Segments of which all that this queue pair sends has been placed.
    [[nodiscard]] std::size_t signals_done() const { return signals_done_; }
    [[nodiscard]] bool is_posted() const { return next_ == batches_.size(); }
    [[nodiscard]] bool is_done() const { return done_ == batches_.size(); }
    /// Whether the next batch is posted in part.
    [[nodiscard]] bool has_begun() const { return resume_ > 0; }
    /// Payload of the next batch.
    [[nodiscard]] Bytes next_bytes() const { return batches_[next_].bytes; }
    /// Posts the next batch. False where it must wait for a slot of the queue, of staging here, or
    /// for the peer's answer; the call may be repeated.
    [[nodiscard]] bool post();
    /// The oldest batch has completed: its payload. `index` is the request that said so.
    [[nodiscard]] Bytes complete(std::uint32_t index);
    /// "write of 1.00 MiB to byte 4096": for messages.
    [[nodiscard]] std::string describe(std::uint32_t index) const;

private:
    struct Batch {
        std::uint32_t first = 0, count = 0;  ///< requests
        std::uint32_t slots = 0;             ///< of the send queue
        bool is_packed = false, is_parcel = false, is_signal = false;
        [[nodiscard]] bool is_alone() const { return is_packed || is_parcel || is_signal; }
        Bytes bytes = 0;
    };
    [[nodiscard]] std::uint32_t slots_of(const Request& request) const;

    Channel* channel_;
    std::uint32_t target_;
    Bytes batch_bytes_;
    std::vector<Request> requests_;
    std::vector<Batch> batches_;
    std::vector<Parcel> parcels_;
    std::vector<std::size_t> signals_;  ///< their batches
    std::vector<ibv_send_wr> work_;
    std::vector<ibv_sge> entries_;
    const std::byte* arena_ = nullptr;
    std::byte* staging_ = nullptr;  ///< kSlots of slot_ bytes, taken in turn
    Bytes slot_ = 0;

    std::size_t packed_ = 0;  ///< packed requests in all
    std::size_t next_ = 0, done_ = 0;
    std::uint32_t resume_ = 0;  ///< requests of the next batch that are posted already
    bool is_packed_ = false;    ///< the next batch's rows are in staging
    std::uint32_t slots_used_ = 0;
    std::size_t packed_posted_ = 0;
    int packed_under_way_ = 0;
    std::size_t allowed_ = 0, signals_done_ = 0;
};

}  // namespace weightlift::transport::verbs
