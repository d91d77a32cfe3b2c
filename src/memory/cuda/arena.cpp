#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include "weightlift/base/error.hpp"
#include "weightlift/base/values.hpp"
#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/driver.hpp"
#include "weightlift/cuda/error.hpp"
#include "weightlift/cuda/stream.hpp"
#include "weightlift/memory/cuda_arena.hpp"

#include "../bounds.hpp"
#include "allocation.hpp"
#include "kernels.hpp"
#include "work_list.hpp"

namespace weightlift::memory {
namespace cuda {
namespace {

using weightlift::cuda::check;
using weightlift::cuda::DeviceGuard;
using weightlift::cuda::Stream;

int device_attribute(cudaDeviceAttr attribute, int device) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
    return value;
}

/// The lists of the last few spans, in device memory. A session has two or three: its blocks, its
/// padding, those of them that are compared one by one.
class WorkLists {
public:
    /// The list's place here, valid until the next call, and itself.
    struct Entry {
        WorkList list;
        DeviceArray<WorkBlock> blocks;
        DeviceArray<std::uint64_t> first_item;
    };

    const Entry& find(WorkList list, int device, const Stream& stream) {
        for (const Entry& entry : entries_)
            if (entry.list == list && !list.blocks.empty()) return entry;
        Entry& entry = entries_[next_++ % entries_.size()];
        // Until both copies are there, the entry holds for no list.
        entry.list = {};
        entry.blocks.reserve(list.blocks.size(), device);
        entry.first_item.reserve(list.first_item.size(), device);
        upload(entry.blocks.data(), list.blocks, stream);
        upload(entry.first_item.data(), list.first_item, stream);
        // The lists are in pageable memory that moves away.
        stream.synchronize();
        entry.list = std::move(list);
        return entry;
    }

private:
    template <class T>
    static void upload(T* to, const std::vector<T>& from, const Stream& stream) {
        if (from.empty()) return;
        check(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice,
                              stream.get()),
              "cudaMemcpyAsync");
    }
    std::array<Entry, 4> entries_;
    std::size_t next_ = 0;
};

/// What needs the device to be current: made and destroyed under a guard.
struct OnDevice {
    Stream stream;
    std::unique_ptr<Allocation> memory;
    WorkLists lists;
    DeviceArray<Finding> finding;
    DeviceArray<unsigned long long> sums;
};

class CudaArena final : public Arena {
public:
    CudaArena(Bytes bytes, const CudaOptions& options) : bytes_(bytes), device_(options.device) {
        const DeviceGuard guard(device_);
        multiprocessors_ = device_attribute(cudaDevAttrMultiProcessorCount, device_);
        writes_ = ask_remote_writes();
        on_device_ = std::make_unique<OnDevice>();
        on().memory = allocate(bytes, options);
        on().finding.reserve(1, device_);
        if (bytes > 0)
            check(cudaMemsetAsync(data(), 0, on().memory->size(), on().stream.get()),
                  "cudaMemsetAsync");
        on().stream.synchronize();
    }
    ~CudaArena() override {
        try {
            const DeviceGuard guard(device_);
            on_device_.reset();
        } catch (const Error& error) {
            // The members' own destructors cannot throw: it was the guard.
            fmt::print(stderr, "weightlift: {}\n", error.what());
        }
    }

    [[nodiscard]] MemoryKind kind() const override { return MemoryKind::Cuda; }
    [[nodiscard]] std::byte* data() const override { return on().memory->data(); }
    [[nodiscard]] Bytes bytes() const override { return bytes_; }
    [[nodiscard]] int share_fd() const override { return on().memory->share_fd(); }
    [[nodiscard]] CudaShare share() const {
        const DeviceGuard guard(device_);
        return cuda::share(*on().memory, device_);
    }

    void fill(std::span<const Block> blocks, std::uint64_t version) override {
        check_inside(blocks, bytes_);
        const DeviceGuard guard(device_);
        launch_fill(queue(), upload(make_work_list(blocks)), version);
        on().stream.synchronize();
    }
    void poison(std::span<const Block> blocks) override {
        check_inside(blocks, bytes_);
        const DeviceGuard guard(device_);
        launch_poison(queue(), upload(make_work_list(blocks)));
        on().stream.synchronize();
    }
    void fingerprint(std::span<const Block> blocks, std::span<std::uint64_t> sums) const override {
        WEIGHTLIFT_ENSURES(sums.size() == blocks.size());
        check_inside(blocks, bytes_);
        if (blocks.empty()) return;
        const DeviceGuard guard(device_);
        on().sums.reserve(blocks.size(), device_);
        unsigned long long* const at = on().sums.data();
        const std::size_t size = blocks.size() * sizeof(*at);
        const auto stream = on().stream.get();
        check(cudaMemsetAsync(at, 0, size, stream), "cudaMemsetAsync");
        launch_fingerprint(queue(), upload(make_work_list(blocks)), at);
        std::vector<unsigned long long> parts(blocks.size());
        check(cudaMemcpyAsync(parts.data(), at, size, cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync");
        on().stream.synchronize();
        for (std::size_t b = 0; b < parts.size(); ++b) sums[b] += parts[b];
    }
    [[nodiscard]] std::optional<Mismatch> compare(std::span<const Block> blocks,
                                                  std::uint64_t version) const override {
        check_inside(blocks, bytes_);
        const DeviceGuard guard(device_);
        const WorkList list = make_work_list(blocks);
        const Finding found = find(list, [&](const Work& work, Finding* finding) {
            launch_compare(queue(), work, version, finding);
        });
        if (found.first == kNothing) return std::nullopt;
        const Place place = place_of(list, found.first);
        const Block& block = blocks[place.block];
        const std::uint64_t row = block.box.rows.begin + place.row;
        const std::uint64_t column = block.box.columns.begin + place.column;
        std::uint32_t actual = 0;
        read(&actual, place.offset, element_bytes(block.dtype));
        const std::uint32_t expected =
            value_bits(block.dtype, value_row_key(block.tensor, row, version),
                       static_cast<std::uint32_t>(column));
        return Mismatch{place.block, row, column, expected, actual, found.count};
    }
    [[nodiscard]] std::optional<Bytes> first_nonzero(
        std::span<const ByteBlock> blocks) const override {
        check_inside(blocks, bytes_);
        const DeviceGuard guard(device_);
        const WorkList list = make_work_list(blocks);
        const Finding found = find(list, [&](const Work& work, Finding* finding) {
            launch_first_nonzero(queue(), work, finding);
        });
        if (found.first == kNothing) return std::nullopt;
        return place_of(list, found.first).offset;
    }
    void flip(Bytes offset) override {
        WEIGHTLIFT_ENSURES(offset < bytes_);
        const DeviceGuard guard(device_);
        std::uint8_t value = 0;
        read(&value, offset, 1);
        value = static_cast<std::uint8_t>(~value);
        check(
            cudaMemcpyAsync(data() + offset, &value, 1, cudaMemcpyHostToDevice, on().stream.get()),
            "cudaMemcpyAsync");
        on().stream.synchronize();
    }

    [[nodiscard]] std::optional<DmaBuf> dmabuf(Bytes offset, Bytes bytes) const override {
        WEIGHTLIFT_ENSURES(offset <= bytes_ && bytes <= bytes_ - offset);
        if (bytes == 0 || !has_driver_attribute(device_, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
            return std::nullopt;
        const DeviceGuard guard(device_);
        // A dma-buf is of whole pages of the host; the allocation is, too.
        const auto page = static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
        const Bytes begin = offset / page * page;
        const Bytes end = std::min(round_up(offset + bytes, page), on().memory->size());
        const auto get = weightlift::cuda::driver_entry<PFN_cuMemGetHandleForAddressRange_v11070>(
            "cuMemGetHandleForAddressRange");
        DmaBuf part;
        const CUresult status = get(&part.fd, reinterpret_cast<CUdeviceptr>(data() + begin),
                                    end - begin, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
        if (status == CUDA_ERROR_NOT_SUPPORTED) return std::nullopt;
        weightlift::cuda::check_driver(status, "cuMemGetHandleForAddressRange");
        part.offset = offset - begin;
        return part;
    }
    [[nodiscard]] RemoteWrites remote_writes() const override { return writes_; }
    void flush_remote_writes() override {
        WEIGHTLIFT_ENSURES(writes_.can_flush);
        const DeviceGuard guard(device_);
        check(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                 cudaFlushGPUDirectRDMAWritesToOwner),
              "cudaDeviceFlushGPUDirectRDMAWrites");
    }

private:
    // Scratch of const operations lives there, as does the memory itself.
    [[nodiscard]] OnDevice& on() const { return *on_device_; }
    [[nodiscard]] Queue queue() const { return {on().stream.get(), multiprocessors_}; }

    [[nodiscard]] RemoteWrites ask_remote_writes() const {
        RemoteWrites writes;
        writes.are_ordered = device_attribute(cudaDevAttrGPUDirectRDMAWritesOrdering, device_) >=
                             cudaGPUDirectRDMAWritesOrderingOwner;
        writes.can_flush = (device_attribute(cudaDevAttrGPUDirectRDMAFlushWritesOptions, device_) &
                            cudaFlushGPUDirectRDMAWritesOptionHost) != 0;
        // Where GPU and CPU are one coherent machine, NICs may come by C2C or by PCIe.
        writes.two_paths =
            device_attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables, device_) != 0;
        return writes;
    }
    [[nodiscard]] Work upload(WorkList list) const {
        const WorkLists::Entry& entry = on().lists.find(std::move(list), device_, on().stream);
        return {entry.blocks.data(), entry.first_item.data(), entry.list.blocks.size(),
                entry.list.items(), data()};
    }
    template <class Launch>
    [[nodiscard]] Finding find(const WorkList& list, Launch launch) const {
        Finding found{0, kNothing};
        const auto stream = on().stream.get();
        Finding* const at = on().finding.data();
        check(cudaMemcpyAsync(at, &found, sizeof(found), cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
        launch(upload(list), at);
        check(cudaMemcpyAsync(&found, at, sizeof(found), cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync");
        on().stream.synchronize();
        return found;
    }
    void read(void* to, Bytes offset, Bytes bytes) const {
        check(
            cudaMemcpyAsync(to, data() + offset, bytes, cudaMemcpyDeviceToHost, on().stream.get()),
            "cudaMemcpyAsync");
        on().stream.synchronize();
    }

    Bytes bytes_;
    int device_;
    int multiprocessors_ = 0;
    RemoteWrites writes_;
    std::unique_ptr<OnDevice> on_device_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Arena> make_cuda_arena(Bytes bytes, const CudaOptions& options) {
    return std::make_unique<cuda::CudaArena>(bytes, options);
}

CudaShare share_cuda_arena(const Arena& arena) {
    const auto* const of_gpu = dynamic_cast<const cuda::CudaArena*>(&arena);
    WEIGHTLIFT_ENSURES(of_gpu != nullptr);
    return of_gpu->share();
}

std::unique_ptr<PeerCudaMemory> map_cuda_share(const CudaShare& share, int fd, int device) {
    const weightlift::cuda::DeviceGuard guard(device);
    return cuda::map_share(share, fd, device);
}

}  // namespace weightlift::memory
