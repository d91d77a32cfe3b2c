// A push over mappings of other processes' GPU memory: copy engines and one kernel carry the bytes,
// events say when they are there, and the source then notes that on the destinations' pages.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "weightlift/cuda/stream.hpp"

#include "region.hpp"
#include "work.hpp"

namespace weightlift::transport::cuda_ipc {

class CudaIpcPush final : public Push {
public:
    /// What the transport lends for the push's life. `regions` as plan.destinations.
    struct Parts {
        const LocalRegion& own;
        std::vector<std::shared_ptr<const RemoteRegion>> regions;
        std::vector<std::uint64_t>& arrived;  ///< by world rank: last epoch accepted from it
        int rank = 0;
        SplitRules rules;
        const std::function<std::string(int)>& label;
    };
    /// For a plan whose bounds are checked.
    CudaIpcPush(const BoundPlan& plan, Parts parts);
    ~CudaIpcPush() override;

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
    /// Batches started on one stream and not seen done, the oldest first.
    class Lane {
    public:
        static constexpr std::size_t kDepth = 4;
        [[nodiscard]] bool is_full() const { return count_ == kDepth; }
        [[nodiscard]] const cuda::Stream& stream() const { return stream_; }
        [[nodiscard]] Bytes outstanding() const { return outstanding_; }
        /// Batch `index` has been put on the stream.
        void push(std::size_t index, Bytes bytes);
        /// Index of the oldest batch, if it is done.
        [[nodiscard]] std::optional<std::size_t> pop();

    private:
        struct Slot {
            cuda::Event event;
            std::size_t batch = 0;
            Bytes bytes = 0;
        };
        cuda::Stream stream_;
        std::array<Slot, kDepth> slots_;
        std::size_t first_ = 0, count_ = 0;
        Bytes outstanding_ = 0;
    };
    enum class State { Idle, Running, Dead };
    /// The kernel of one segment does not fill a GPU.
    static constexpr std::size_t kEngineLanes = 4, kKernelLanesOfSegments = 4;
    struct Held {
        std::uint32_t destination = 0;
        std::size_t batches = 0;
    };

    void post();
    void put(const Batch& batch, const Lane& lane) const;
    void collect();
    /// Tells destinations how many of their segments are placed.
    void signal();
    void note(std::uint32_t destination, bool is_done) const;
    void notify(std::uint32_t destination);

    Parts parts_;
    std::vector<int> destinations_;
    Arrivals arrivals_;
    int device_, multiprocessors_ = 0;
    Work work_;
    std::unique_ptr<memory::Arena> pieces_;  ///< work_.pieces in memory of the device
    std::vector<Lane> lanes_;                ///< the engines', then the kernel's
    std::vector<Held> segments_;
    /// By destination: batches, or segments where the plan has them.
    std::vector<std::size_t> tasks_of_;

    State state_ = State::Idle;
    std::uint64_t epoch_ = 0;
    std::size_t next_ = 0;                   ///< batch to post
    std::vector<std::size_t> left_;          ///< by destination: tasks not done
    std::vector<std::size_t> batches_left_;  ///< by segment: batches not done
    std::vector<std::uint32_t> signalled_;   ///< by destination: segments
    std::size_t allowed_ = 0, placed_ = 0;   ///< segments
    std::size_t destinations_left_ = 0;
    Bytes completed_ = 0;
};

}  // namespace weightlift::transport::cuda_ipc
