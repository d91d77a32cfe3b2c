#include "push.hpp"

#include <algorithm>
#include <map>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sched.h>

#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/error.hpp"
#include "weightlift/memory/cuda_arena.hpp"

#include "../copy_kernel.hpp"
#include "broadcasts.hpp"
#include "lists.hpp"

namespace weightlift::transport::nccl {
namespace {

using cuda::check;
using cuda::DeviceGuard;

constexpr int kListTag = 31022;
constexpr Bytes kAlignment = 256;
/// Steps that may be on the streams and not seen done: CUDA's queues are not endless.
constexpr std::size_t kAhead = 8;
/// Those, and the two before them that others wait for.
constexpr std::size_t kEvents = kAhead + 2;
/// What sends the epoch back may still run when a push is done; it waits for no peer to act.
constexpr std::chrono::seconds kLastSends{1};

void free_host(std::uint64_t* words) { cuda::warn(cudaFreeHost(words), "cudaFreeHost"); }

}  // namespace

NcclPush::NcclPush(const BoundPlan& plan, const std::vector<MessageRules>& rules, Parts parts)
    : parts_(std::move(parts)), host_mail_(nullptr, free_host) {
    exchange_lists(plan, rules);
    if (destinations_.empty() && sources_.empty()) return;
    if (!parts_.communicator || parts_.communicator->is_aborted())
        throw TransportError("nccl: a push needs `connect` after one that was given up");
    for (auto* pairs : {&destinations_, &sources_})
        for (Pair& pair : *pairs) {
            pair.index = parts_.communicator->index_of(pair.rank);
            pair.bytes = pair.list.bytes();
            pair.is_local = plan.broadcast_from > 0 && pair.rank == parts_.context.world->rank();
        }
    join_roots();
    const DeviceGuard guard(parts_.device);
    steps_ = make_steps(destinations_, sources_, plan.segments);
    for (const Pair& from : sources_)
        if (puts(from) && !from.list.messages.empty())
            awaited_.push_back(
                {from.index, narrow<int>(from.list.messages.size(), "messages of a source")});
    segments_ = plan.segments.size();
    has_segments_ = segments_ > 0 || !plan.signals.empty();
    allocate();
}

void NcclPush::exchange_lists(const BoundPlan& plan, const std::vector<MessageRules>& rules) {
    const int self = parts_.context.world->rank();
    std::map<int, mpi::Bytestring> outgoing;
    for (PairMessages& list : cut_lists(plan, rules, self)) {
        Pair& pair = destinations_.emplace_back();
        pair.rank = plan.destinations[destinations_.size() - 1].rank;
        pair.list = std::move(list);
        outgoing.emplace(pair.rank, serialize(pair.list));
    }
    const auto told = parts_.context.world->exchange(outgoing, plan.sources, kListTag,
                                                     mpi::Deadline(parts_.context.timeout),
                                                     "exchange of lists of messages");
    for (const int source : plan.sources) {
        Pair& pair = sources_.emplace_back();
        pair.rank = source;
        pair.list = deserialize(told.at(source));
        check_messages(pair.list, parts_.arena.bytes(), parts_.context.label(source));
        check_broadcasts(pair.list, source, self, parts_.context.label(source));
    }
}

/// Each waits for the other members only in the communicators of smaller roots: there is no cycle.
void NcclPush::join_roots() {
    std::map<int, std::vector<int>> members;
    for (const Pair& to : destinations_)
        if (!to.list.members.empty()) members[parts_.context.world->rank()] = to.list.members;
    for (const Pair& from : sources_)
        if (!from.list.members.empty()) members[from.rank] = from.list.members;
    for (const auto& [root, ranks] : members)
        roots_.emplace(root, parts_.communicator_of(root, ranks));
}

Bytes NcclPush::broadcast_bytes() const {
    Bytes sum = 0;
    for (const auto* pairs : {&destinations_, &sources_})
        for (const Pair& pair : *pairs) sum += pair.list.broadcast_bytes();
    return sum;
}

void NcclPush::allocate() {
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, parts_.device),
          "cudaDeviceGetAttribute");
    streams_ = std::make_unique<Streams>();
    const std::size_t words = 1 + sources_.size() + destinations_.size();
    const Bytes pieces = steps_.pieces.size() * sizeof(Piece);
    pieces_at_ = steps_.staging_bytes;
    mail_at_ = round_up(pieces_at_ + pieces, kAlignment);
    scratch_ = memory::make_cuda_arena(mail_at_ + words * sizeof(std::uint64_t),
                                       {.device = parts_.device});
    if (pieces > 0)
        check(cudaMemcpy(scratch_->data() + pieces_at_, steps_.pieces.data(), pieces,
                         cudaMemcpyHostToDevice),
              "cudaMemcpy");
    steps_.pieces = {};
    events_ = std::vector<Events>(std::min(steps_.list.size(), kEvents));
    void* host = nullptr;
    check(cudaMallocHost(&host, words * sizeof(std::uint64_t)), "cudaMallocHost");
    host_mail_.reset(static_cast<std::uint64_t*>(host));
}

NcclPush::~NcclPush() {
    if (!streams_) return;
    try {
        const DeviceGuard guard(parts_.device);
        if (state_ == State::Idle && epoch_ > 0) {
            const mpi::Deadline deadline(kLastSends);
            const cuda::Event& last = events(steps_.list.size() - 1).travelled;
            while (!last.is_done() && !deadline.passed()) ::sched_yield();
            if (!last.is_done()) give_up();
        } else if (state_ != State::Idle) {
            give_up();
        }
        events_.clear();
        streams_.reset();
        host_mail_.reset();
        scratch_.reset();
    } catch (const Error& error) {
        fmt::print(stderr, "weightlift: {}\n", error.what());
    }
}

/// What has begun must not reach anybody's memory in a later push.
void NcclPush::give_up() noexcept {
    parts_.communicator->abort();
    for (const auto& [root, communicator] : roots_) communicator->abort();
    const auto what = [this] {
        return fmt::format("the streams of the push of epoch {} have not ended; not done with {}",
                           epoch_, peers_not_done());
    };
    end_in_time(parts_.context, what, [this] {
        for (const auto* stream : {&streams_->wire, &streams_->pack, &streams_->unpack})
            cuda::warn(cudaStreamSynchronize(stream->get()), "cudaStreamSynchronize");
    });
}

const Piece* NcclPush::pieces() const {
    return reinterpret_cast<const Piece*>(scratch_->data() + pieces_at_);
}

std::byte* NcclPush::mail(std::size_t word) const {
    return scratch_->data() + mail_at_ + word * sizeof(std::uint64_t);
}

void NcclPush::start(std::uint64_t /*version*/, std::uint64_t epoch) {
    WEIGHTLIFT_ENSURES(state_ == State::Idle);
    if (steps_.list.empty()) return;
    state_ = State::Dead;  // where the next throws
    for (const Pair& source : sources_)
        if (epoch <= parts_.arrived[static_cast<std::size_t>(source.rank)])
            throw TransportError(
                fmt::format("nccl: push of epoch {} after {} has notified it already", epoch,
                            parts_.context.label(source.rank)));
    epoch_ = epoch;
    posted_ = collected_ = 0;
    allowed_ = placed_ = 0;
    signals_ = Signals::Open;
    left_ = destinations_.size() + sources_.size();
    for (auto* pairs : {&destinations_, &sources_})
        for (Pair& pair : *pairs) {
            pair.posted = pair.finished = 0;
            pair.signals = 0;
            pair.is_done = false;
        }
    const DeviceGuard guard(parts_.device);
    *host_mail_ = epoch;
    check(cudaMemcpyAsync(mail(0), host_mail_.get(), sizeof epoch, cudaMemcpyHostToDevice,
                          streams_->wire.get()),
          "cudaMemcpyAsync");
    post();
    state_ = State::Running;
}

void NcclPush::allow(std::size_t end) {
    WEIGHTLIFT_ENSURES(allowed_ <= end && end <= segments_);
    allowed_ = end;
}

bool NcclPush::test() {
    WEIGHTLIFT_ENSURES(state_ != State::Dead);
    if (state_ == State::Idle) return true;
    state_ = State::Dead;  // where the next throws
    const DeviceGuard guard(parts_.device);
    collect();
    post();
    // Not before the peer has been told our epoch, too: it would wait in vain for that. Segments
    // would wait for each other.
    if (!refusal_.empty() && (has_segments_ || collected_ == steps_.list.size()))
        throw TransportError(refusal_);
    // Also where nothing more is to be posted: failures are only found by asking.
    const bool is_done =
        is_launched() && left_ == 0 && posted_ == steps_.list.size() && has_signals();
    state_ = is_done ? State::Idle : State::Running;
    return is_done;
}

bool NcclPush::is_launched() const try {
    bool is_ready = parts_.communicator->is_ready();
    for (const auto& [root, communicator] : roots_) is_ready = communicator->is_ready() && is_ready;
    return is_ready;
} catch (const TransportError& error) {
    throw TransportError(fmt::format("{}; not done with {}", error.what(), peers_not_done()));
}

std::string NcclPush::peers_not_done() const {
    std::vector<std::string> peers;
    for (const int rank : pending()) peers.push_back(parts_.context.label(rank));
    return name_some(peers);
}

void NcclPush::post() {
    while (posted_ < steps_.list.size() && posted_ < collected_ + kAhead) {
        if (!is_launching_) {
            if (steps_.list[posted_].needs > allowed_) return;
            prepare(posted_);
            is_launching_ = true;
            next_ = Launch::Puts;
        }
        while (is_launched() && next_ != Launch::Done) {
            launch(posted_, next_);
            next_ = static_cast<Launch>(static_cast<int>(next_) + 1);
        }
        if (!is_launched()) return;
        is_launching_ = false;
        follow(posted_++);
    }
}

void NcclPush::prepare(std::size_t s) {
    const Step& step = steps_.list[s];
    if (step.pack.size() > 0) {
        if (s >= 2) streams_->pack.wait(events(s - 2).travelled);  // the half that it packs into
        launch_copy(streams_->pack.get(), multiprocessors_, pieces() + step.pack.begin,
                    step.pack.size(), parts_.arena.data(), scratch_->data());
        events(s).packed.record(streams_->pack);
    }
    // The half that it receives into is unpacked, and so is what it tells sources to be there.
    if (s >= 2 && steps_.list[s - 2].has_more()) streams_->wire.wait(events(s - 2).finished);
    if (s >= 1 && steps_.list[s - 1].has_more() && answers_for(s - 1, s))
        streams_->wire.wait(events(s - 1).finished);
}

/// Each group must be on the stream before the next is begun.
void NcclPush::launch(std::size_t s, Launch group) {
    const Step& step = steps_.list[s];
    const bool is_of_all = is_broadcast(step.number);
    if (group == Launch::Puts && !is_of_all) put(step.number);
    if (group != Launch::Sends) return;
    if (step.pack.size() > 0) streams_->wire.wait(events(s).packed);
    if (is_of_all)
        broadcast(step.number);
    else
        send_and_receive(step.number);
    for (auto* pairs : {&destinations_, &sources_})
        for (Pair& pair : *pairs)
            if (pair.has(pair.posted, step.number)) ++pair.posted;
}

/// Whether step `s` tells a source that what step `last` brought is there.
bool NcclPush::answers_for(std::size_t last, std::size_t s) const {
    return std::any_of(sources_.begin(), sources_.end(), [&](const Pair& source) {
        return source.last_step == last && source.list.answer_number() == steps_.list[s].number;
    });
}

/// The step's groups are on the stream: so is now what comes after it.
void NcclPush::follow(std::size_t s) {
    const Step& step = steps_.list[s];
    const Events& on = events(s);
    on.travelled.record(streams_->wire);
    if (!step.has_more()) return;
    const cuda::Stream& stream = streams_->unpack;
    stream.wait(on.travelled);
    if (step.unpack.size() > 0)
        launch_copy(stream.get(), multiprocessors_, pieces() + step.unpack.begin,
                    step.unpack.size(), scratch_->data(), parts_.arena.data());
    if (step.local.size() > 0)
        launch_copy(stream.get(), multiprocessors_, pieces() + step.local.begin, step.local.size(),
                    parts_.arena.data(), parts_.arena.data());
    if (step.brings_mail)
        check(cudaMemcpyAsync(host_mail_.get() + 1, mail(1),
                              (sources_.size() + destinations_.size()) * sizeof(std::uint64_t),
                              cudaMemcpyDeviceToHost, stream.get()),
              "cudaMemcpyAsync");
    on.finished.record(stream);
}

void NcclPush::collect() {
    while (collected_ < posted_) {
        const Events& of_step = events(collected_);
        const bool has_more = steps_.list[collected_].has_more();
        if (!(has_more ? of_step.finished : of_step.travelled).is_done()) return;
        finish(steps_.list[collected_++]);
    }
}

void NcclPush::finish(const Step& step) {
    const auto expect = [&](const Pair& pair, std::size_t word) {
        if (const std::uint64_t told = host_mail_.get()[word]; told != epoch_)
            refusal_ = fmt::format("nccl: {} has notified epoch {}, but {} is under way",
                                   parts_.context.label(pair.rank), told, epoch_);
    };
    const auto end = [&](Pair& pair) {
        pair.is_done = true;
        --left_;
    };
    const auto is_answer = [&](const Pair& destination) {
        return step.number == destination.list.answer_number();
    };
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        const Pair& source = sources_[i];
        if (source.has(source.finished, step.number) && source.list.carries_epoch(source.finished))
            expect(source, 1 + i);
    }
    for (std::size_t d = 0; d < destinations_.size(); ++d)
        if (is_answer(destinations_[d])) expect(destinations_[d], 1 + sources_.size() + d);
    if (!refusal_.empty()) return;
    for (Pair& source : sources_) {
        if (!source.has(source.finished, step.number)) continue;
        source.signals =
            static_cast<std::uint32_t>(source.list.rounds[source.finished++].segments_end);
        if (source.finished < source.list.rounds.size()) continue;
        parts_.arrived[static_cast<std::size_t>(source.rank)] = epoch_;
        end(source);
    }
    for (Pair& destination : destinations_) {
        if (!is_answer(destination)) continue;
        completed_ += destination.bytes;
        end(destination);
    }
    placed_ = step.placed;
}

std::vector<int> NcclPush::pending() const {
    if (state_ == State::Idle) return {};
    std::vector<int> peers;
    for (const auto* pairs : {&destinations_, &sources_})
        for (const Pair& pair : *pairs)
            if (!pair.is_done) peers.push_back(pair.rank);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
}

}  // namespace weightlift::transport::nccl
