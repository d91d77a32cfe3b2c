// A push through mapped memory: the source stores, the destination watches its control page.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "region.hpp"

namespace weightlift::transport::shm {

class ShmPush final : public Push {
public:
    /// What the transport lends for the push's life. `regions` as plan.destinations.
    struct Parts {
        const LocalRegion& own;
        std::vector<std::shared_ptr<const RemoteRegion>> regions;
        std::vector<std::uint64_t>& arrived;  ///< by world rank: last epoch accepted from it
        int rank = 0;
        Bytes slice = 0;
        const std::function<std::string(int)>& label;
    };
    ShmPush(BoundPlan plan, Parts parts);

    void start(std::uint64_t version, std::uint64_t epoch) override;
    [[nodiscard]] bool test() override;
    void allow(std::size_t end) override;
    [[nodiscard]] std::size_t placed() const override { return placed_; }
    [[nodiscard]] std::uint32_t signals_from(std::size_t source) const override {
        return arrivals_.segments_from(source);
    }
    [[nodiscard]] std::vector<int> pending() const override;
    [[nodiscard]] Bytes completed_bytes() const override { return completed_; }

private:
    /// Where the copying stands.
    struct Cursor {
        std::size_t copy = 0;
        std::uint64_t row = 0;
        Bytes byte = 0;  ///< in that row
    };
    enum class State { Idle, Running, Dead };

    [[nodiscard]] Bytes advance(Bytes budget);
    void signal();
    void notify();
    void note(std::uint32_t destination, const Note& note) const {
        parts_.regions[destination]->epochs().write(parts_.rank, note);
    }

    BoundPlan plan_;
    Parts parts_;
    Arrivals arrivals_;
    /// By destination: index after its last segment, or copy where there are no segments.
    std::vector<std::size_t> last_;
    std::vector<std::uint32_t> notify_order_;  ///< destinations by last_
    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
    Cursor cursor_;
    std::size_t allowed_ = 0;  ///< copies
    std::size_t allowed_segments_ = 0;
    std::size_t placed_ = 0;           ///< segments
    std::vector<std::uint32_t> sent_;  ///< by destination: segments placed there
    std::size_t notified_ = 0;         ///< of notify_order_
    Bytes completed_ = 0;
};

}  // namespace weightlift::transport::shm
