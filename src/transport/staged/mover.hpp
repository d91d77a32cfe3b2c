// Between the arena and staging: by the processor where the arena is host memory, else by the GPU's
// copy engine, which works while messages are under way.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "weightlift/cuda/copy.hpp"
#include "weightlift/cuda/stream.hpp"
#include "weightlift/memory/arena.hpp"

#include "cut.hpp"

namespace weightlift::transport::staged {

/// What tells that a move is done.
struct Ticket {
    std::optional<cuda::Event> event;  ///< where the arena is a GPU's
};

class Mover {
public:
    /// Outlived by the arena. Where that is a GPU's, payloads are in pinned memory.
    Mover(const memory::Arena& arena, int device);
    [[nodiscard]] Ticket make_ticket() const;

    /// Arena to payload. Done when is_done says so.
    void gather(std::span<const Part> parts, std::byte* payload, const Ticket& ticket) const;
    /// Payload to arena.
    void scatter(std::span<const Part> parts, const std::byte* payload, const Ticket& ticket) const;
    [[nodiscard]] static bool is_done(const Ticket& ticket) {
        return !ticket.event || ticket.event->is_done();
    }
    /// Within the arena.
    void place(std::span<const Part> parts, const Ticket& ticket) const;
    /// Waits for all that is under way.
    void finish() const;

private:
    struct Engine {
        int device = 0;
        cuda::Stream out{}, in{};
    };
    /// Where the rows of a part go, and where they come from.
    struct Ends {
        std::byte* dst;
        Bytes dst_pitch;
        const std::byte* src;
        Bytes src_pitch;
    };
    template <class EndsOf>
    void move(cuda::Stream Engine::*stream, std::span<const Part> parts, const Ticket& ticket,
              EndsOf ends_of) const;

    std::byte* arena_;
    std::optional<Engine> engine_;  ///< of a GPU
};

}  // namespace weightlift::transport::staged
