#include "mover.hpp"

#include "weightlift/cuda/device.hpp"

#include "../strided.hpp"

namespace weightlift::transport::staged {

Mover::Mover(const memory::Arena& arena, int device) : arena_(arena.data()) {
    if (arena.kind() != memory::MemoryKind::Cuda) return;
    const cuda::DeviceGuard guard(device);
    engine_.emplace(Engine{.device = device});
}

Ticket Mover::make_ticket() const {
    Ticket ticket;
    if (engine_) {
        const cuda::DeviceGuard guard(engine_->device);
        ticket.event.emplace();
    }
    return ticket;
}

template <class EndsOf>
void Mover::move(cuda::Stream Engine::*stream, std::span<const Part> parts, const Ticket& ticket,
                 EndsOf ends_of) const {
    const auto for_each = [&](auto copy) {
        for (const Part& part : parts) {
            const auto [dst, dst_pitch, src, src_pitch] = ends_of(part);
            // Rows that follow each other at both ends are one.
            const bool is_one = dst_pitch == part.row_bytes && src_pitch == part.row_bytes;
            copy(dst, dst_pitch, src, src_pitch, is_one ? 1 : part.rows,
                 is_one ? part.bytes() : part.row_bytes);
        }
    };
    if (!engine_) {
        for_each(copy_rows);
        return;
    }
    const cuda::DeviceGuard guard(engine_->device);
    const cuda::Stream& on = (*engine_).*stream;
    for_each([&](auto... rows) { cuda::copy_rows(on, rows...); });
    ticket.event->record(on);
}

void Mover::gather(std::span<const Part> parts, std::byte* payload, const Ticket& ticket) const {
    move(&Engine::out, parts, ticket, [&](const Part& part) {
        return Ends{payload + part.at, part.row_bytes, arena_ + part.src_offset, part.src_pitch};
    });
}

void Mover::scatter(std::span<const Part> parts, const std::byte* payload,
                    const Ticket& ticket) const {
    move(&Engine::in, parts, ticket, [&](const Part& part) {
        return Ends{arena_ + part.dst_offset, part.dst_pitch, payload + part.at, part.row_bytes};
    });
}

void Mover::place(std::span<const Part> parts, const Ticket& ticket) const {
    move(&Engine::out, parts, ticket, [&](const Part& part) {
        return Ends{arena_ + part.dst_offset, part.dst_pitch, arena_ + part.src_offset,
                    part.src_pitch};
    });
}

void Mover::finish() const {
    if (!engine_) return;
    const cuda::DeviceGuard guard(engine_->device);
    engine_->out.synchronize();
    engine_->in.synchronize();
}

}  // namespace weightlift::transport::staged
