// A push in rounds, each one NCCL group: ranges go from arena to arena, short rows through staging,
// packed before and unpacked after by a kernel while other rounds travel.
//
// A rank's steps are the rounds that it has a part in, in the order of their numbers. Both ends of
// a pair know the numbers of its rounds, and no group waits for more than the groups of smaller
// numbers, so the pairs cannot block each other. A broadcast round is a group as well, of all of
// its root's members: they all know its number, which no group of sends and no other root has, and
// so the same holds. It is on the root's own communicator, but on the same stream. With a pair's
// first round the source also sends the push's epoch; in the second number after its last, once its
// bytes are unpacked, the destination sends it back, since a send that NCCL is done with need not
// have arrived.
//
// In plans of broadcasts a rank's copies to itself go by a kernel after the group, as users of NCCL
// do it; in others through NCCL, as all.
//
// Where ranges are put they go one-sided, those of a number before its sends. A put waits for
// nobody: all have agreed since the last push. Of segments nothing is put. A stream that waits for
// signals cannot be given up, as only the peer ends that: so the source sends the epoch once more
// behind its last put, in its last round, and the destination asks for the signals when it has it,
// as the last of the push. Then they are there.
//
// Segments go in the rounds of their own numbers; a group is begun once all that this rank sends in
// it is allowed. Where nothing else is sent the epoch stands for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "weightlift/cuda/stream.hpp"

#include "communicator.hpp"
#include "steps.hpp"

namespace weightlift::transport::nccl {

class NcclPush final : public Push {
public:
    /// What the transport lends for the push's life.
    struct Parts {
        std::shared_ptr<Communicator> communicator;  ///< none: this rank is linked to nobody
        /// Of a root and those it broadcasts to. Collective over these, for roots ascending.
        std::function<std::shared_ptr<Communicator>(int root, const std::vector<int>& members)>
            communicator_of;
        bool has_window = false;  ///< ranges are put into the destination's arena
        memory::Arena& arena;
        int device = 0;
        std::vector<std::uint64_t>& arrived;  ///< by world rank: last epoch accepted from it
        const Context& context;
    };
    /// For a plan whose bounds and keys are checked. `rules`: of each destination.
    NcclPush(const BoundPlan& plan, const std::vector<MessageRules>& rules, Parts parts);
    ~NcclPush() override;

    void start(std::uint64_t version, std::uint64_t epoch) override;
    [[nodiscard]] bool test() override;
    void allow(std::size_t end) override;
    /// What NCCL is done with here: an answer for each would be a group for each.
    [[nodiscard]] std::size_t placed() const override { return placed_; }
    [[nodiscard]] std::uint32_t signals_from(std::size_t source) const override {
        return sources_[source].signals;
    }
    [[nodiscard]] std::vector<int> pending() const override;
    [[nodiscard]] Bytes completed_bytes() const override { return completed_; }

    /// Of a push, by ncclBroadcast: from here, to each destination, and to here.
    [[nodiscard]] Bytes broadcast_bytes() const;

private:
    /// A step's groups, in the order in which they go on the stream; a broadcast has one.
    enum class Launch : std::uint8_t { Puts, Sends, Done };
    enum class Signals : std::uint8_t { Open, Asked, Recorded };
    /// Of the steps under way.
    struct Events {
        cuda::Event packed, travelled, finished;
    };
    enum class State { Idle, Running, Dead };

    void exchange_lists(const BoundPlan& plan, const std::vector<MessageRules>& rules);
    void join_roots();
    [[nodiscard]] const Events& events(std::size_t step) const {
        return events_[step % events_.size()];
    }
    void allocate();
    void post();
    [[nodiscard]] bool is_launched() const;
    void prepare(std::size_t step);
    void launch(std::size_t step, Launch group);
    [[nodiscard]] bool answers_for(std::size_t last, std::size_t step) const;
    /// Whether its ranges are put. Both ends know.
    [[nodiscard]] bool puts(const Pair& pair) const;
    void put(std::uint64_t number);
    [[nodiscard]] bool sends_epoch(const Pair& pair, std::size_t round) const;
    [[nodiscard]] bool has_signals();
    void send_and_receive(std::uint64_t number);
    void broadcast(std::uint64_t number);
    void follow(std::size_t step);
    void collect();
    void finish(const Step& step);
    void give_up() noexcept;
    [[nodiscard]] std::string peers_not_done() const;
    [[nodiscard]] const Piece* pieces() const;
    [[nodiscard]] std::byte* mail(std::size_t word) const;

    Parts parts_;
    std::map<int, std::shared_ptr<Communicator>> roots_;  ///< of broadcasts, by world rank
    std::vector<Pair> destinations_, sources_;
    Steps steps_;
    std::vector<Events> events_;
    int multiprocessors_ = 0;
    /// In GPU memory: staging, pieces, mail. Mail: our epoch, then those of sources, then those
    /// that destinations have sent back.
    std::unique_ptr<memory::Arena> scratch_;
    Bytes pieces_at_ = 0, mail_at_ = 0;
    std::unique_ptr<std::uint64_t, void (*)(std::uint64_t*)> host_mail_;  ///< page-locked
    struct Streams {
        cuda::Stream wire, pack, unpack;
        cuda::Event signalled;
    };
    std::unique_ptr<Streams> streams_;

    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
    std::size_t posted_ = 0, collected_ = 0;  ///< steps
    bool is_launching_ = false;               ///< step posted_'s groups go to the stream
    Launch next_ = Launch::Done;              ///< of these: the next
    std::vector<Group::Awaited> awaited_;     ///< signals of a push
    Signals signals_ = Signals::Open;
    std::size_t left_ = 0;                  ///< pairs that are not done
    bool has_segments_ = false;             ///< here, or on their way to here
    std::size_t segments_ = 0;              ///< of this rank
    std::size_t allowed_ = 0, placed_ = 0;  ///< of those
    Bytes completed_ = 0;
    std::string refusal_;  ///< what a peer said is not of this push
};

}  // namespace weightlift::transport::nccl
