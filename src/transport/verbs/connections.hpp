// Queue pairs to the ranks that share bytes with this one, and what those ranks said of themselves.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weightlift/mpi/message.hpp"
#include "weightlift/plan/queue_pairs.hpp"

#include "resources.hpp"

namespace weightlift::transport::verbs {

/// Parcels and packed requests under way per channel, each in a staging slot of its own.
inline constexpr int kSlots = 4;
static_assert(kSlots + 2 == plan::kAnswers);
inline constexpr Bytes kSlotBytes = 256 * KiB;
/// Signals under way per channel, each with a receive that waits for it.
inline constexpr int kSignals = 16;
static_assert(kSignals + 2 == plan::kReceives);

/// What a work request's id says: which kind it is of, of which channel, and which one there.
enum class Kind : std::uint8_t { Send, Credit, Receive, Read };
struct WorkId {
    Kind kind = Kind::Send;
    std::uint32_t channel = 0;  ///< 24 bits
    std::uint32_t index = 0;    ///< of the request, for Send
};
[[nodiscard]] constexpr std::uint64_t pack_id(WorkId id) {
    return static_cast<std::uint64_t>(id.kind) << 56 | std::uint64_t{id.channel} << 32 | id.index;
}
[[nodiscard]] constexpr WorkId unpack_id(std::uint64_t id) {
    return {static_cast<Kind>(id >> 56), static_cast<std::uint32_t>(id >> 32) & 0xffffffU,
            static_cast<std::uint32_t>(id)};
}
[[nodiscard]] constexpr std::uint64_t receive_id(std::uint32_t channel) {
    return pack_id({Kind::Receive, channel, 0});
}

/// Bytes of a peer's memory that can be named in a work request.
struct RemoteMemory {
    std::uint64_t base = 0;
    Bytes bytes = 0, piece = 1;
    std::vector<std::vector<std::uint32_t>> keys;  ///< by rail of its owner, then by piece
    [[nodiscard]] std::uint32_t key(int rail, Bytes offset) const {
        return keys[static_cast<std::size_t>(rail)][offset / piece];
    }
};

/// What each rank tells each that it is linked with.
struct Hello {
    int asked_qps = 0, auto_qps = 1;
    Bytes slot = 0;           ///< most bytes of a parcel that it takes; 0: none
    std::uint64_t nonce = 0;  ///< of its region, as in the region's key
    std::vector<Rail> rails;
};
/// And, once both know which rails they use with each other, to those that write to it.
struct Offer {
    RemoteMemory region;
    RemoteMemory probe;  ///< scratch that may be written to at any time
};
void put(mpi::Writer& out, const RemoteMemory& memory);
void get(mpi::Reader& in, RemoteMemory& memory);
void put(mpi::Writer& out, const Hello& hello);
void get(mpi::Reader& in, Hello& hello);

/// One queue pair with a peer.
struct Channel {
    std::uint32_t id = 0;  ///< index into Connections::channels
    int peer = 0;
    int rail = 0, peer_rail = 0;
    double rate = 0;
    bool is_incoming = false;
    std::unique_ptr<QueuePair> pair;
    // Parcels and signals: those that the peer has not answered by a credit (outgoing); credits to
    // be sent and those not yet completed (incoming). They outlive a push: a credit may come after
    // its end.
    int unanswered = 0, owed = 0, answering = 0;
};

struct Peer {
    Hello hello;
    Offer offer;
    std::vector<std::uint32_t> outgoing, incoming;  ///< channels
};

/// A message to every one of `to` and from every one of `from`; `prepare` runs before the first is
/// made. A rank where either throws says so to its peers instead of leaving them waiting, and they
/// throw TransportError with its words.
[[nodiscard]] std::map<int, mpi::Bytestring> exchange(
    const Context& context, std::span<const int> to, std::span<const int> from, int tag,
    const char* phase, const std::function<mpi::Bytestring(int peer)>& make,
    const std::function<void()>& prepare = [] {});

class Connections {
public:
    /// Collective over the ranks of `links`. `hello` without auto_qps, which depends on the links.
    /// `offer` is asked once for this rank's memory, with keys for the rails that are used.
    Connections(const Context& context, std::vector<std::unique_ptr<Device>>& devices,
                const LinkTable& links, const Hello& hello,
                const std::function<Offer(const std::vector<bool>& used)>& offer);
    ~Connections();
    Connections(const Connections&) = delete;
    Connections& operator=(const Connections&) = delete;

    [[nodiscard]] const Peer* find(int rank) const;
    [[nodiscard]] Channel& channel(std::uint32_t id) { return channels_[id]; }
    [[nodiscard]] std::size_t size() const { return channels_.size(); }
    [[nodiscard]] bool uses(int rail) const;
    /// Takes what belongs to no push: credits and their completions. False: it is a push's.
    [[nodiscard]] bool take(const ibv_wc& completion);
    /// Sends the credits owed on an incoming channel, as far as its queue has room.
    void answer(Channel& channel);
    /// Nothing of these queue pairs can arrive or leave after it. Local.
    void fence() noexcept;

private:
    void plan_channels(int rank, bool is_incoming, const Hello& mine);
    void open_channels();

    Context context_;
    std::vector<std::unique_ptr<Device>>& devices_;
    std::map<int, Peer> peers_;
    std::vector<Channel> channels_;
};

}  // namespace weightlift::transport::verbs
