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
    void notify();

    BoundPlan plan_;
    Parts parts_;
    Arrivals arrivals_;
    std::vector<std::size_t> last_;            ///< by destination: index after its last copy
    std::vector<std::uint32_t> notify_order_;  ///< destinations by last_
    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
    Cursor cursor_;
    std::size_t notified_ = 0;  ///< of notify_order_
    Bytes completed_ = 0;
};

}  // namespace weightlift::transport::shm
