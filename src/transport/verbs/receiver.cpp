#include "receiver.hpp"

#include <fmt/format.h>

#include "../strided.hpp"

namespace weightlift::transport::verbs {

Receiver::Receiver(const Channel& channel, std::vector<Parcel> parcels, const std::byte* staging,
                   Bytes slot, std::byte* arena, std::uint32_t signals)
    : peer_(channel.peer),
      parcels_(std::move(parcels)),
      staging_(staging),
      slot_(slot),
      arena_(arena),
      expected_signals_(signals) {}

void Receiver::start(std::uint64_t epoch) {
    epoch_ = epoch;
    next_parcel_ = 0;
    signals_ = 0;
    has_arrived_ = false;
}

Receiver::Arrival Receiver::accept(std::uint32_t notice, const std::string& peer_label) {
    if ((notice & (kParcelBit | kSignalBit)) == kSignalBit) {
        if (signals_ == expected_signals_ || notice != signal_notice(epoch_, signals_))
            throw TransportError(fmt::format(
                "verbs: {} has sent signal {:#x}, but {:#x} would be next: {} of {} segments have "
                "arrived in epoch {}",
                peer_label, notice, signal_notice(epoch_, signals_), signals_, expected_signals_,
                epoch_));
        ++signals_;
        return Arrival::Signal;
    }
    if ((notice & kParcelBit) == 0) {
        if (notice != notice_of(epoch_))
            throw TransportError(fmt::format("verbs: {} has notified epoch {}, but {} is under way",
                                             peer_label, notice, epoch_));
        if (has_arrived_)
            throw TransportError(
                fmt::format("verbs: {} has notified epoch {} twice", peer_label, epoch_));
        if (next_parcel_ != parcels_.size())
            throw TransportError(
                fmt::format("verbs: {} has notified epoch {} after {} of {} parcels", peer_label,
                            epoch_, next_parcel_, parcels_.size()));
        if (signals_ != expected_signals_)
            throw TransportError(
                fmt::format("verbs: {} has notified epoch {} after {} of {} segments", peer_label,
                            epoch_, signals_, expected_signals_));
        has_arrived_ = true;
        return Arrival::Notice;
    }
    if (next_parcel_ >= parcels_.size() || notice != parcel_notice(next_parcel_))
        throw TransportError(fmt::format("verbs: {} has sent parcel {}, but {} of {} is next",
                                         peer_label, notice & ~kParcelBit, next_parcel_,
                                         parcels_.size()));
    const Parcel& parcel = parcels_[next_parcel_];
    copy_rows(arena_ + parcel.dst_offset, parcel.dst_pitch,
              staging_ + next_parcel_ % kSlots * slot_, parcel.row_bytes, parcel.rows,
              parcel.row_bytes);
    ++next_parcel_;
    return Arrival::Parcel;
}

void check_parcels(const std::vector<Parcel>& parcels, Bytes slot, Bytes region_bytes,
                   const std::string& peer_label) {
    for (const Parcel& parcel : parcels) {
        const bool fits =
            parcel.rows > 0 && parcel.row_bytes > 0 && parcel.row_bytes <= slot &&
            parcel.rows <= slot / parcel.row_bytes && parcel.row_bytes <= region_bytes &&
            (parcel.rows == 1 ||
             (parcel.dst_pitch >= parcel.row_bytes &&
              parcel.dst_pitch <= (region_bytes - parcel.row_bytes) / (parcel.rows - 1))) &&
            parcel.dst_offset <=
                region_bytes - parcel.row_bytes - (parcel.rows - 1) * parcel.dst_pitch;
        if (!fits)
            throw TransportError(
                fmt::format("verbs: {} means to send {} rows of {} bytes with pitch {} to byte {}, "
                            "outside a slot of {} or the region of {} bytes",
                            peer_label, parcel.rows, parcel.row_bytes, parcel.dst_pitch,
                            parcel.dst_offset, slot, region_bytes));
    }
}

}  // namespace weightlift::transport::verbs
