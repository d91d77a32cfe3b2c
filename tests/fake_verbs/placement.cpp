// When the bytes of writes reach memory.
#include <algorithm>
#include <cstring>

#include "world.hpp"

namespace weightlift::fake {
namespace {

void place(const HeldWrite& write) {
    std::memcpy(write.to, write.bytes.data(), write.bytes.size());
}

}  // namespace

void hold(QueuePair& responder, Region* region, std::byte* to, const std::byte* from,
          std::size_t bytes) {
    responder.held.push_back({responder.next_held++, to, region, {from, from + bytes}});
    adapter_of(responder.context).counters.placed_bytes += bytes;
    if (world().scenario.placement == Placement::AtExecution)
        place_before(responder, responder.next_held);
}

void place_before(QueuePair& responder, std::uint64_t number) {
    std::erase_if(responder.held, [&](const HeldWrite& write) {
        if (write.number < number) place(write);
        return write.number < number;
    });
}

void place_one(QueuePair& responder) {
    const auto at =
        responder.held.begin() + static_cast<std::ptrdiff_t>(draw(responder.held.size()));
    place(*at);
    responder.held.erase(at);
}

void place_into(Adapter& adapter, const Region* region) {
    for (auto& queue_pair : adapter.queue_pairs)
        std::erase_if(queue_pair->held, [&](const HeldWrite& write) {
            if (write.region == region) place(write);
            return write.region == region;
        });
}

}  // namespace weightlift::fake
