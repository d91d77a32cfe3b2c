#include "mover.hpp"

#include <cstring>

#include "weightlift/cuda/device.hpp"

namespace weightlift::transport::staged {
namespace {

void copy_here(std::byte* dst, Bytes dst_pitch, const std::byte* src, Bytes src_pitch,
               std::uint64_t rows, Bytes row_bytes) {
    for (std::uint64_t row = 0; row < rows; ++row)
        std::memcpy(dst + row * dst_pitch, src + row * src_pitch, row_bytes);
}

}  // namespace

Mover::Mover(const memory::Arena& arena, int device, memory::Arena& staging)
    : arena_(arena.data()) {
    if (arena.kind() != memory::MemoryKind::Cuda) return;
    const cuda::DeviceGuard guard(device);
    engine_.emplace(device, staging);
}

Ticket Mover::make_ticket() const {
    Ticket ticket;
    if (engine_) {
        const cuda::DeviceGuard guard(engine_->device);
        ticket.event.emplace();
    }
    return ticket;
}

void Mover::gather(std::span<const Part> parts, std::byte* payload, const Ticket& ticket) const {
    if (!engine_) {
        for (const Part& part : parts)
            copy_here(payload + part.at, part.row_bytes, arena_ + part.src_offset, part.src_pitch,
                      part.rows, part.row_bytes);
        return;
    }
    const cuda::DeviceGuard guard(engine_->device);
    for (const Part& part : parts)
        cuda::copy_rows(engine_->out, payload + part.at, part.row_bytes, arena_ + part.src_offset,
                        part.src_pitch, part.rows, part.row_bytes);
    ticket.event->record(engine_->out);
}

void Mover::scatter(std::span<const Part> parts, const std::byte* payload,
                    const Ticket& ticket) const {
    if (!engine_) {
        for (const Part& part : parts)
            copy_here(arena_ + part.dst_offset, part.dst_pitch, payload + part.at, part.row_bytes,
                      part.rows, part.row_bytes);
        return;
    }
    const cuda::DeviceGuard guard(engine_->device);
    for (const Part& part : parts)
        cuda::copy_rows(engine_->in, arena_ + part.dst_offset, part.dst_pitch, payload + part.at,
                        part.row_bytes, part.rows, part.row_bytes);
    ticket.event->record(engine_->in);
}

void Mover::finish() const {
    if (!engine_) return;
    const cuda::DeviceGuard guard(engine_->device);
    engine_->out.synchronize();
    engine_->in.synchronize();
}

}  // namespace weightlift::transport::staged
