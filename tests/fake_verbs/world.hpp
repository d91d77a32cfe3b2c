// What the fake devices consist of. Verbs objects are the bases of ours, so that the pointers a
// program holds lead back.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>

#include "fake_verbs.hpp"

namespace weightlift::fake {

struct Adapter;
struct Context : ibv_context {
    Adapter* adapter = nullptr;
    std::deque<ibv_async_event> events;
    std::map<void*, int> unacknowledged;  ///< events handed out, by element
};

struct Domain : ibv_pd {
    int users = 0;
};

struct Region : ibv_mr {
    std::uint64_t iova = 0;
    std::byte* base = nullptr;  ///< where the byte at iova lies
    unsigned access = 0;
    void* mapping = nullptr;  ///< of a dma-buf
    std::size_t mapping_bytes = 0;
};

struct CompletionQueue;
struct Channel : ibv_comp_channel {
    std::deque<CompletionQueue*> events;
};

struct Completion {
    ibv_wc wc{};
    bool is_receive = false;
    std::uint64_t retires = 0;  ///< requests of the queue up to this one have left their slots
    std::uint64_t places = 0;   ///< of a receive: held writes before this one become visible
};

enum class Armed : std::uint8_t { No, Solicited, Any };
struct CompletionQueue : ibv_cq {
    std::deque<Completion> entries;
    bool is_dead = false;
    Armed armed = Armed::No;
    int users = 0;
    std::uint32_t unacknowledged = 0;
};

struct Request {
    std::uint64_t number = 0;
    ibv_send_wr wr{};
    std::vector<ibv_sge> sges;
    std::vector<std::byte> inlined;
    std::uint32_t slots = 1;
    std::uint64_t bytes = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;  ///< once executed
};

struct Receive {
    std::uint64_t number = 0;
    std::uint64_t id = 0;
    std::vector<ibv_sge> sges;
};

/// Bytes that have arrived and are not yet in memory.
struct HeldWrite {
    std::uint64_t number = 0;
    std::byte* to = nullptr;
    Region* region = nullptr;
    std::vector<std::byte> bytes;
};

struct Slots {
    std::uint64_t number = 0;
    std::uint32_t slots = 0;
    bool is_signaled = false;
};

struct QueuePair : ibv_qp {
    int order = 0;  ///< of creation, over all devices
    bool signals_all = false;
    ibv_qp_cap granted{};
    ibv_qp_attr attributes{};
    std::deque<Request> posted;    ///< not executed
    std::deque<Request> executed;  ///< not acknowledged
    std::deque<Receive> receives;
    std::deque<HeldWrite> held;    ///< written by the peer
    std::deque<Slots> send_slots;  ///< of requests that no polled completion has retired
    std::uint32_t slots_taken = 0;
    std::uint32_t receives_taken = 0;
    std::uint64_t next_request = 0, next_receive = 0, next_held = 0;
    std::uint64_t promised = 0;  ///< held writes before this one precede a receive's completion
    std::uint64_t attempts = 0;  ///< of the oldest request, in vain
    bool has_failed = false;     ///< the last of `executed` failed: nothing more is executed
};

struct Adapter : ibv_device {
    Device is;
    Counters counters;
    std::uint32_t next_queue_pair = 0x11;  ///< the same on all, so that mixing devices shows
    std::vector<std::unique_ptr<Context>> contexts;
    std::vector<std::unique_ptr<Domain>> domains;
    std::vector<std::unique_ptr<Region>> regions;
    std::vector<std::unique_ptr<Channel>> channels;
    std::vector<std::unique_ptr<CompletionQueue>> completion_queues;
    std::vector<std::unique_ptr<QueuePair>> queue_pairs;
    std::unordered_map<std::uint32_t, Region*> by_local_key, by_remote_key;
    std::unordered_map<std::uint32_t, QueuePair*> by_number;
};

struct World {
    Scenario scenario;
    std::vector<std::unique_ptr<Adapter>> adapters;
    std::mt19937_64 random;
    std::size_t lists = 0;
    int next_order = 0;
    std::uint32_t next_key = 1;
    std::uint64_t immediates = 0;
    std::vector<Registration> registrations;
    std::uint64_t outstanding = 0, most_outstanding = 0;  ///< bytes
    bool loses_packets = false;
    std::vector<WorkFault> work_faults;
    std::vector<ImmediateFault> immediate_faults;
    std::map<std::uint64_t, int> registration_faults;
    std::vector<std::string> misuses;
};
[[nodiscard]] World& world();

[[nodiscard]] inline Adapter& adapter_of(ibv_context* context) {
    return *static_cast<Context*>(context)->adapter;
}
/// Uniform in [0, below).
[[nodiscard]] std::uint64_t draw(std::uint64_t below);
void misuse(const std::string& what);

/// Removes what `pointer` owns from a list of owners.
template <class Owner, class Object>
void release(std::vector<std::unique_ptr<Owner>>& owners, const Object* pointer) {
    std::erase_if(owners, [&](const auto& owner) { return owner.get() == pointer; });
}

// memory.cpp
/// Where [address, address + bytes) of the region with this key lies; null where it may not be
/// used.
[[nodiscard]] std::byte* reach(Adapter& adapter, const ibv_pd* domain, std::uint64_t address,
                               std::uint64_t bytes, std::uint32_t key, unsigned access,
                               bool is_remote, Region** region = nullptr);
// completions.cpp
void complete(CompletionQueue& queue, const Completion& completion, bool is_solicited);
void raise_event(Context& context, const ibv_async_event& event);
void kill_queue(CompletionQueue& queue);
// placement.cpp
void hold(QueuePair& responder, Region* region, std::byte* to, const std::byte* from,
          std::size_t bytes);
void place_before(QueuePair& responder, std::uint64_t number);
void place_one(QueuePair& responder);
void place_into(Adapter& adapter, const Region* region);
// network.cpp
/// A random number of steps.
void let_time_pass();
/// Moves a queue pair to the error state: what it holds is flushed as time passes.
void stop(QueuePair& queue_pair);
/// The queue pair at the other end, or null where no packet gets there.
[[nodiscard]] QueuePair* peer_of(const QueuePair& queue_pair);
// execution.cpp
/// Tries the oldest posted request; afterwards it is posted still, or executed.
void execute(QueuePair& queue_pair);

}  // namespace weightlift::fake
