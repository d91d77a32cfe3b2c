// A push over queue pairs: the source posts, the destination counts what arrives.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "receiver.hpp"
#include "registered.hpp"
#include "rows.hpp"
#include "sender.hpp"
#include "visibility.hpp"

namespace weightlift::transport::verbs {

/// What the transport lends for the push's life.
struct Lent {
    const Context& context;
    std::vector<std::unique_ptr<Device>>& devices;
    Connections& connections;
    const Registered& arena;
    Bytes slot = 0;  ///< of this rank's staging
    Visibility visibility = Visibility::Nothing;
    Loopback* loopback = nullptr;  ///< for LoopbackRead
    bool& is_abandoned;
};

class VerbsPush final : public Push {
public:
    /// Tells the destinations what will come in parcels, and gets their staging.
    VerbsPush(const BoundPlan& plan, const RowRule& rows, const Lent& lent);
    ~VerbsPush() override;

    void start(std::uint64_t version, std::uint64_t epoch) override;
    [[nodiscard]] bool test() override;
    void allow(std::size_t end) override;
    [[nodiscard]] std::size_t placed() const override { return placed_; }
    [[nodiscard]] std::uint32_t signals_from(std::size_t source) const override {
        return sources_[source].signals;
    }
    [[nodiscard]] std::vector<int> pending() const override;
    [[nodiscard]] Bytes completed_bytes() const override { return completed_; }
    [[nodiscard]] std::optional<std::chrono::nanoseconds> visibility_time() const override {
        return visibility_time_;
    }

private:
    struct Target {
        int rank = 0;
        std::size_t first_sender = 0, senders = 0;
        std::uint32_t segments = 0;
        Bytes outstanding = 0;
    };
    struct Source {
        int rank = 0;
        std::size_t first_receiver = 0, receivers = 0;
        /// Segments that are visible, and those that will be after the flush or read under way.
        std::uint32_t signals = 0, reached = 0;
    };
    struct Part {
        std::uint32_t target = 0;
        std::uint32_t index = 0;  ///< among the target's segments
    };
    enum class State { Idle, Running, Dead };

    void make_senders(const BoundPlan& plan, const RowRule& rows);
    void add(std::span<const Request> requests, std::span<const std::vector<double>> rates,
             std::span<const std::size_t> ends);
    [[nodiscard]] std::span<Sender> senders_of(const Target& target) {
        return std::span(senders_).subspan(target.first_sender, target.senders);
    }
    void agree_on_parcels(const BoundPlan& plan);
    [[nodiscard]] Registered stage(memory::Arena& memory, int access) const;
    void post();
    /// Whether the windows allow that many bytes more; a single batch may pass them.
    [[nodiscard]] bool has_room(const Target& target, Bytes bytes) const;
    void poll();
    /// Takes the steps that make what has arrived visible to the owning device; after the last
    /// arrival, true once all of it is.
    [[nodiscard]] bool is_visible(bool is_end);
    void show();
    /// Segments that all queue pairs have signalled.
    [[nodiscard]] std::uint32_t reached_by(const Source& source) const;
    [[nodiscard]] bool is_placed(const Part& segment) const;
    void handle(const ibv_wc& completion);
    void check_events() const;
    [[noreturn]] void fail_completion(const ibv_wc& completion);

    Lent lent_;
    Bytes window_;
    std::vector<Target> targets_;
    std::vector<Sender> senders_;
    std::vector<Receiver> receivers_;
    std::vector<Source> sources_;
    std::vector<Part> segments_;
    std::vector<std::int32_t> index_of_channel_;  ///< into senders_ or receivers_; -1: none here
    std::unique_ptr<memory::Arena> pack_memory_, parcel_memory_;
    Registered pack_staging_, parcel_staging_;

    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
    std::size_t turn_ = 0;  ///< sender whose turn it is to post
    Bytes outstanding_ = 0;
    std::size_t senders_left_ = 0, senders_unposted_ = 0, receivers_left_ = 0;
    Bytes completed_ = 0;
    std::size_t allowed_ = 0, placed_ = 0;  ///< segments
    bool has_signals_ = false;              ///< that are not visible yet
    bool has_flushed_ = false;              ///< after the last arrival
    bool is_reading_ = false;
    std::size_t reads_left_ = 0;
    mpi::Clock::time_point arrived_{};
    std::optional<std::chrono::nanoseconds> visibility_time_;
    mpi::Clock::time_point looked_{};  ///< for asynchronous events
};

}  // namespace weightlift::transport::verbs
