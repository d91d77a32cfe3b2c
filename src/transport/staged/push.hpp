// A push through staging in host memory: between ranks of one host through slots that both map,
// else by two-sided messages, which work wherever MPI does. Moving and sending overlap message by
// message.
#pragma once

#include <memory>
#include <vector>

#include "sender.hpp"

namespace weightlift::transport::staged {

class StagedPush final : public Push {
public:
    struct Parts {
        const Context& context;
        memory::Arena& arena;
        Bytes slot = 0;                                ///< bytes of a slot here, with its header
        Cut cut;                                       ///< what this rank sends
        std::vector<std::unique_ptr<PeerRing>> rings;  ///< by destination, where it is shared
        std::vector<Incoming> incoming;
        std::unique_ptr<Staging> staging;  ///< of what comes in
    };
    StagedPush(const BoundPlan& plan, Parts parts);
    ~StagedPush() override;

    void start(std::uint64_t version, std::uint64_t epoch) override;
    [[nodiscard]] bool test() override;
    void allow(std::size_t end) override { sender_->allow(end); }
    [[nodiscard]] std::size_t placed() const override { return sender_->placed(); }
    [[nodiscard]] std::uint32_t signals_from(std::size_t source) const override {
        return receiver_->signals_from(source);
    }
    [[nodiscard]] std::vector<int> pending() const override;
    [[nodiscard]] Bytes completed_bytes() const override { return sender_->completed_bytes(); }

private:
    enum class State { Idle, Running, Dead };

    Bytes slice_;
    Mover mover_;
    std::unique_ptr<Receiver> receiver_;
    std::unique_ptr<Sender> sender_;
    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
};

/// Most that is staged on a rank with so many destinations and sources, in slots of `slot` bytes.
[[nodiscard]] Bytes staging_bytes(std::size_t destinations, std::size_t sources, Bytes slot);

}  // namespace weightlift::transport::staged
