// What a process has the GPU do, by CUPTI: kernels by name, copies and sets by number and bytes.
// Loaded by the CUDA driver into programs that know nothing of it (CUDA_INJECTION64_PATH); writes
// $WEIGHTLIFT_TRACE.PID when the program ends.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <cupti.h>
#include <unistd.h>

namespace {

struct Sum {
    std::uint64_t count = 0, bytes = 0;
};
std::mutex mutex;
std::map<std::string, Sum> sums;
std::uint64_t dropped = 0;

constexpr std::size_t kBuffer = std::size_t{1} << 20;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBuffer));
    *size = *buffer == nullptr ? 0 : kBuffer;
    *most_records = 0;
}

void add(const std::string& name, std::uint64_t bytes) {
    Sum& sum = sums[name];
    ++sum.count;
    sum.bytes += bytes;
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t /*size*/, std::size_t valid) {
    const std::lock_guard lock(mutex);
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        // Their newer versions only add to the end.
        switch (record->kind) {
            case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
            case CUPTI_ACTIVITY_KIND_KERNEL:
                add(std::string("kernel ") +
                        reinterpret_cast<const CUpti_ActivityKernel9*>(record)->name,
                    0);
                break;
            case CUPTI_ACTIVITY_KIND_MEMCPY:
                add("copy within a device or with the host",
                    reinterpret_cast<const CUpti_ActivityMemcpy5*>(record)->bytes);
                break;
            case CUPTI_ACTIVITY_KIND_MEMCPY2:
                add("copy to a peer",
                    reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(record)->bytes);
                break;
            case CUPTI_ACTIVITY_KIND_MEMSET:
                add("set", reinterpret_cast<const CUpti_ActivityMemset4*>(record)->bytes);
                break;
            default: break;
        }
    }
    std::size_t lost = 0;
    if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
    std::free(buffer);
}

void write_down() {
    (void)cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    const char* const path = std::getenv("WEIGHTLIFT_TRACE");
    if (path == nullptr) return;
    const std::lock_guard lock(mutex);
    std::FILE* const file =
        std::fopen((std::string(path) + "." + std::to_string(getpid())).c_str(), "w");
    if (file == nullptr) {
        std::perror("WEIGHTLIFT_TRACE");
        return;
    }
    for (const auto& [name, sum] : sums)
        std::fprintf(file, "%s: %" PRIu64 ", %" PRIu64 " bytes\n", name.c_str(), sum.count,
                     sum.bytes);
    std::fprintf(file, "dropped: %" PRIu64 "\n", dropped);
    std::fclose(file);
}

}  // namespace

/// Called by the driver when CUDA starts.
extern "C" int InitializeInjection() {
    if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return 0;
    for (const auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                            CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET})
        if (cuptiActivityEnable(kind) != CUPTI_SUCCESS) return 0;
    return std::atexit(write_down) == 0 ? 1 : 0;
}
