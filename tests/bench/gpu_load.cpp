// Keeps a GPU at one kind of work and says how much of it was done when: gpu_load KIND GPU SECONDS.
//   product  matrix products of 8192 x 8192 bfloat16, values as of weights, bound by the board's
//   power zeros    the same products of zeros: the same instructions, for much less power memory
//   passes over 4 GiB, bound by memory copy     copies of 8 GB from GPU to GPU 1, as cudaMemcpyPeer
//   has them
// A line for each window of about a tenth of a second: its begin and end (nanoseconds of the
// system's clock) and its work (products: TFLOP; else GB). jobs/gpu-load.py puts pushes beside it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/error.hpp"
#include "weightlift/memory/cuda_arena.hpp"

namespace {

using namespace weightlift;
using Clock = std::chrono::system_clock;

constexpr std::chrono::milliseconds kWindow{100};
/// Calls on their way at once, so that the GPU never waits for this process.
constexpr int kAhead = 4;

/// Work of one call, which it only begins.
struct Load {
    double work = 0;
    std::function<void()> begin;
};

void check(cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusString(status));
}

/// bfloat16 of values as of weights.
memory::Block weights(std::uint64_t rows, std::uint64_t columns) {
    return {0, 2 * columns, {{0, rows}, {0, columns}}, DType::BF16, hash_name("weights")};
}

Load product(int gpu, bool is_zeros) {
    constexpr int n = 8192;
    constexpr Bytes bytes = Bytes{2} * n * n;
    const std::shared_ptr arena = memory::make_cuda_arena(3 * bytes, {.device = gpu});
    if (is_zeros)
        cuda::check(cudaMemset(arena->data(), 0, 2 * bytes), "cudaMemset");
    else
        arena->fill(std::vector{weights(2 * n, n)}, 1);
    cublasHandle_t handle = nullptr;  // lives as long as the process
    check(cublasCreate(&handle));
    return {2e-12 * n * n * n, [arena, handle] {
                const float alpha = 1, beta = 0;
                check(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, arena->data(),
                                   CUDA_R_16BF, n, arena->data() + bytes, CUDA_R_16BF, n, &beta,
                                   arena->data() + 2 * bytes, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                                   CUBLAS_GEMM_DEFAULT));
            }};
}

Load memory_pass(int gpu) {
    constexpr Bytes kBytes = 4 * GiB;
    const std::shared_ptr arena = memory::make_cuda_arena(kBytes, {.device = gpu});
    const std::vector blocks{weights(16384, kBytes / 2 / 16384)};
    arena->fill(blocks, 1);
    return {static_cast<double>(kBytes) * 1e-9, [arena, blocks] {
                std::vector<std::uint64_t> sums(1);
                arena->fingerprint(blocks, sums);
            }};
}

Load copy(int gpu) {
    constexpr Bytes kBlock = 8'000'000'000;
    const std::shared_ptr src = memory::make_cuda_arena(kBlock, {.device = gpu});
    const std::shared_ptr dst = memory::make_cuda_arena(kBlock, {.device = 1});
    src->fill(std::vector{weights(kBlock / 2 / 10000, 10000)}, 1);
    cuda::check(cudaDeviceEnablePeerAccess(1, 0), "cudaDeviceEnablePeerAccess");
    return {static_cast<double>(kBlock) * 1e-9, [src, dst, gpu] {
                cuda::check(cudaMemcpyPeerAsync(dst->data(), 1, src->data(), gpu, kBlock),
                            "cudaMemcpyPeerAsync");
            }};
}

Load find(const std::string& kind, int gpu) {
    if (kind == "product" || kind == "zeros") return product(gpu, kind == "zeros");
    if (kind == "memory") return memory_pass(gpu);
    if (kind == "copy") return copy(gpu);
    throw ConfigError("unknown kind of load '" + kind + "'");
}

long long ns(Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

void run(const std::string& kind, int gpu, double seconds) {
    const cuda::DeviceGuard guard(gpu);
    const Load load = find(kind, gpu);
    std::vector<cudaEvent_t> done(kAhead);
    for (cudaEvent_t& event : done)
        cuda::check(
            cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
            "cudaEventCreate");
    const auto begin = [&](cudaEvent_t event) {
        load.begin();
        cuda::check(cudaEventRecord(event), "cudaEventRecord");
    };
    for (const cudaEvent_t event : done) begin(event);
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
    auto opened = Clock::now();
    for (int i = 0, calls = 0; opened < end; i = (i + 1) % kAhead) {
        cuda::check(cudaEventSynchronize(done[static_cast<std::size_t>(i)]),
                    "cudaEventSynchronize");
        ++calls;
        if (const auto now = Clock::now(); now - opened >= kWindow) {
            std::printf("%lld,%lld,%.6f\n", ns(opened), ns(now), load.work * calls);
            opened = now;
            calls = 0;
        }
        begin(done[static_cast<std::size_t>(i)]);
    }
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 4) throw ConfigError("gpu_load KIND GPU SECONDS");
    if (const std::string why = cuda::why_no_devices(); !why.empty()) throw ConfigError(why);
    run(arguments[1], std::atoi(arguments[2]), std::atof(arguments[3]));
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_load: %s\n", error.what());
    return 2;
}
