#include "connections.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "../ranks.hpp"

namespace weightlift::transport::verbs {
namespace {

constexpr int kHelloTag = 31010;
constexpr int kEndpointTag = 31011;
constexpr int kInlineBytes = 64;

Shape shape_of(bool is_incoming, const VerbsOptions& options) {
    // The receiving end only answers: a credit for each parcel and signal. The sending end only
    // takes those. What has no credit is the notice of the end: one a push.
    if (is_incoming) return {.sends = kSlots + 2, .receives = kSignals + 2, .sge = 1};
    const bool gathers = options.rows == Rows::Auto || options.rows == Rows::Gather;
    return {.sends = options.depth > 0 ? options.depth : plan::kQueueDepth,
            .receives = kSignals + 1,
            .sge = gathers ? plan::kGatheredRows : 1,
            .inline_bytes = kInlineBytes};
}

int negotiate(int mine_asked, int mine_auto, int their_asked, int their_auto, const std::string& me,
              const std::string& peer) {
    if (mine_asked > 0 && their_asked > 0 && mine_asked != their_asked)
        throw ConfigError(
            fmt::format("--qps is {} at {} but {} at {}", mine_asked, me, their_asked, peer));
    if (mine_asked > 0 || their_asked > 0) return std::max(mine_asked, their_asked);
    return std::min(mine_auto, their_auto);
}

}  // namespace

void put(mpi::Writer& out, const RemoteMemory& memory) {
    out.put(memory.base);
    out.put(memory.bytes);
    out.put(memory.piece);
    out.put(static_cast<std::uint32_t>(memory.keys.size()));
    for (const auto& keys : memory.keys) out.put_all(std::span(keys));
}

void get(mpi::Reader& in, RemoteMemory& memory) {
    std::uint32_t rails = 0;
    in.get(memory.base);
    in.get(memory.bytes);
    in.get(memory.piece);
    in.get(rails);
    memory.piece = std::max<Bytes>(memory.piece, 1);
    for (std::uint32_t i = 0; i < rails; ++i) in.get_all(memory.keys.emplace_back());
}

void put(mpi::Writer& out, const Hello& hello) {
    out.put(hello.asked_qps);
    out.put(hello.auto_qps);
    out.put(hello.slot);
    out.put(hello.nonce);
    out.put_all(std::span(hello.rails));
}

void get(mpi::Reader& in, Hello& hello) {
    in.get(hello.asked_qps);
    in.get(hello.auto_qps);
    in.get(hello.slot);
    in.get(hello.nonce);
    in.get_all(hello.rails);
}

std::map<int, mpi::Bytestring> exchange(const Context& context, std::span<const int> to,
                                        std::span<const int> from, int tag, const char* phase,
                                        const std::function<mpi::Bytestring(int)>& make,
                                        const std::function<void()>& prepare) {
    const mpi::Deadline deadline(context.timeout);
    std::map<int, mpi::Bytestring> outgoing;
    try {
        prepare();
        for (const int peer : to) {
            mpi::Writer out;
            out.put(true);
            out.put_all(std::span<const std::byte>(make(peer)));
            outgoing[peer] = out.take();
        }
    } catch (const Error& error) {
        mpi::Writer out;
        out.put(false);
        out.put(std::string(error.what()));
        const mpi::Bytestring notice = out.take();
        for (const int peer : to) outgoing[peer] = notice;
        (void)context.world->exchange(outgoing, {}, tag, deadline, phase);
        throw;
    }
    auto incoming = context.world->exchange(outgoing, from, tag, deadline, phase);
    for (auto& [peer, bytes] : incoming) {
        mpi::Reader in(bytes, phase);
        bool is_good = false;
        in.get(is_good);
        if (!is_good) {
            std::string why;
            in.get(why);
            throw TransportError(fmt::format("verbs: {} gave up: {}", context.label(peer), why));
        }
        mpi::Bytestring content;
        in.get_all(content);
        bytes = std::move(content);
    }
    return incoming;
}

Connections::Connections(const Context& context, std::vector<std::unique_ptr<Device>>& devices,
                         const LinkTable& links, const Hello& hello,
                         const std::function<Offer(const std::vector<bool>&)>& offer)
    : context_(context), devices_(devices) {
    const std::vector<int> destinations = ranks_of(links.destinations);
    const std::vector<int> sources = ranks_of(links.sources);
    std::vector<int> linked;
    std::set_union(destinations.begin(), destinations.end(), sources.begin(), sources.end(),
                   std::back_inserter(linked));
    Hello mine = hello;
    mine.auto_qps = plan::default_queue_pairs(std::max(destinations.size(), sources.size()));

    const auto hellos =
        exchange(context, linked, linked, kHelloTag, "exchange of devices", [&](int) {
            mpi::Writer out;
            put(out, mine);
            return out.take();
        });
    for (const auto& [rank, bytes] : hellos) {
        mpi::Reader in(bytes, "description of devices");
        get(in, peers_[rank].hello);
    }
    Offer offered;
    const auto open_all = [&] {
        if (linked.empty()) return;
        for (const int rank : destinations) plan_channels(rank, false, mine);
        for (const int rank : sources) plan_channels(rank, true, mine);
        open_channels();
        std::vector<bool> used(devices_.size(), false);
        for (const Channel& channel : channels_)
            used[static_cast<std::size_t>(channel.rail)] = true;
        offered = offer(used);
    };
    const auto endpoints = exchange(
        context, linked, linked, kEndpointTag, "exchange of queue pairs",
        [&](int peer) {
            mpi::Writer out;
            for (const auto* list : {&peers_[peer].outgoing, &peers_[peer].incoming}) {
                std::vector<Endpoint> told;
                for (const std::uint32_t id : *list) told.push_back(channels_[id].pair->endpoint());
                out.put_all(std::span<const Endpoint>(told));
            }
            if (!peers_[peer].incoming.empty()) {
                put(out, offered.region);
                put(out, offered.probe);
            }
            return out.take();
        },
        open_all);
    for (const auto& [rank, bytes] : endpoints) {
        mpi::Reader in(bytes, "list of queue pairs");
        std::vector<Endpoint> theirs_out, theirs_in;
        in.get_all(theirs_out);
        in.get_all(theirs_in);
        Peer& peer = peers_[rank];
        if (theirs_in.size() != peer.outgoing.size() || theirs_out.size() != peer.incoming.size())
            throw TransportError(fmt::format(
                "verbs: {} and {} do not agree on the number of their queue pairs: {} and {} "
                "outgoing, {} and {} incoming",
                context.label(context.world->rank()), context.label(rank), peer.outgoing.size(),
                theirs_in.size(), peer.incoming.size(), theirs_out.size()));
        if (!peer.outgoing.empty()) {
            get(in, peer.offer.region);
            get(in, peer.offer.probe);
        }
        const auto connect = [&](const std::vector<std::uint32_t>& ids,
                                 const std::vector<Endpoint>& theirs) {
            for (std::size_t i = 0; i < ids.size(); ++i) {
                Channel& channel = channels_[ids[i]];
                const auto rail = static_cast<std::size_t>(channel.peer_rail);
                channel.pair->connect(peer.hello.rails[rail], theirs[i], context_.verbs);
            }
        };
        connect(peer.outgoing, theirs_in);
        connect(peer.incoming, theirs_out);
    }
}

void Connections::plan_channels(int rank, bool is_incoming, const Hello& mine) {
    Peer& peer = peers_[rank];
    const Hello& theirs = peer.hello;
    const std::string me = context_.label(context_.world->rank());
    const int qps = negotiate(mine.asked_qps, mine.auto_qps, theirs.asked_qps, theirs.auto_qps, me,
                              context_.label(rank));
    const auto& source = is_incoming ? theirs.rails : mine.rails;
    const auto& destination = is_incoming ? mine.rails : theirs.rails;
    const std::vector<RailPair> pairs = pair_rails(source, destination);
    if (pairs.empty())
        throw TransportError(
            fmt::format("verbs: {} and {} have no devices of one link layer (name them with --nic)",
                        me, context_.label(rank)));
    for (const RailPair& rails : pairs)
        for (int i = 0; i < qps; ++i) {
            const auto id = static_cast<std::uint32_t>(channels_.size());
            channels_.push_back({.id = id,
                                 .peer = rank,
                                 .rail = is_incoming ? rails.destination : rails.source,
                                 .peer_rail = is_incoming ? rails.source : rails.destination,
                                 .rate = rails.rate,
                                 .is_incoming = is_incoming,
                                 .pair = nullptr});
            (is_incoming ? peer.incoming : peer.outgoing).push_back(id);
        }
}

void Connections::open_channels() {
    std::vector<int> entries(devices_.size(), 0);  // still to be opened, by device
    const auto entries_of = [&](const Channel& channel) {
        const Shape shape = shape_of(channel.is_incoming, context_.verbs);
        return shape.sends + shape.receives;
    };
    for (const Channel& channel : channels_)
        entries[static_cast<std::size_t>(channel.rail)] += entries_of(channel);
    for (Channel& channel : channels_) {
        const auto rail = static_cast<std::size_t>(channel.rail);
        channel.pair = std::make_unique<QueuePair>(
            *devices_[rail], shape_of(channel.is_incoming, context_.verbs), context_.verbs,
            channel.is_incoming ? IBV_ACCESS_REMOTE_WRITE : 0, entries[rail]);
        entries[rail] -= entries_of(channel);
        // Before the peer is told of the queue pair: nothing can arrive where no receive waits.
        for (int i = 0; i < channel.pair->shape().receives; ++i)
            channel.pair->post_receive(receive_id(channel.id));
    }
}

Connections::~Connections() {
    channels_.clear();
    for (const auto& device : devices_) device->drop_queues();
}

bool Connections::uses(int rail) const {
    return std::any_of(channels_.begin(), channels_.end(),
                       [rail](const Channel& channel) { return channel.rail == rail; });
}

const Peer* Connections::find(int rank) const {
    const auto at = peers_.find(rank);
    return at == peers_.end() ? nullptr : &at->second;
}

bool Connections::take(const ibv_wc& completion) {
    if (completion.status != IBV_WC_SUCCESS) return false;
    const WorkId id = unpack_id(completion.wr_id);
    if (id.kind == Kind::Read) return false;
    Channel& channel = channels_[id.channel];
    if (id.kind == Kind::Credit) {
        --channel.answering;
        answer(channel);
        return true;
    }
    if (id.kind != Kind::Receive || channel.is_incoming) return false;
    --channel.unanswered;
    channel.pair->post_receive(completion.wr_id);
    return true;
}

void Connections::answer(Channel& channel) {
    // A message, not a write: the sending side lets nobody write to it.
    for (; channel.owed > 0 && channel.answering < channel.pair->shape().sends; --channel.owed) {
        ibv_send_wr request{};
        request.wr_id = pack_id({Kind::Credit, channel.id, 0});
        request.opcode = IBV_WR_SEND;
        request.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr* bad = nullptr;
        const int error = ibv_post_send(channel.pair->get(), &request, &bad);
        if (error == ENOMEM && channel.answering > 0) return;
        if (error != 0)
            throw system_error("cannot send a credit to " + context_.label(channel.peer), error);
        ++channel.answering;
    }
}

void Connections::fence() noexcept {
    for (const Channel& channel : channels_) channel.pair->fence();
}

}  // namespace weightlift::transport::verbs
