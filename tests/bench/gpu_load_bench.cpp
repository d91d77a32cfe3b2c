// What else a GPU may be at while weights come in: a matrix product, bound by its arithmetic, and
// a pass over memory, bound by that. jobs/gpu-receiver.sh runs them beside a push and alone.
// WEIGHTLIFT_BENCH_GPU: which GPU.
#include <cstdlib>
#include <memory>

#include <benchmark/benchmark.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/error.hpp"
#include "weightlift/memory/cuda_arena.hpp"

namespace {

using namespace weightlift;

int gpu() {
    const char* const asked = std::getenv("WEIGHTLIFT_BENCH_GPU");
    return asked == nullptr ? 0 : std::atoi(asked);
}

bool has_gpu(benchmark::State& state) {
    const std::string why = cuda::why_no_devices();
    if (!why.empty()) state.SkipWithError(why.c_str());
    return why.empty();
}

void check(cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusString(status));
}

void bench_gemm(benchmark::State& state) {
    if (!has_gpu(state)) return;
    constexpr int n = 8192;
    constexpr Bytes bytes = Bytes{n} * n * 2;
    const cuda::DeviceGuard guard(gpu());
    const auto arena = memory::make_cuda_arena(3 * bytes, {.device = gpu()});
    // Values as of weights: what a product costs depends on them.
    arena->fill(std::vector<memory::Block>{{0, 2 * n, {{0, 2 * n}, {0, n}}, DType::BF16, 1}}, 1);
    cublasHandle_t handle = nullptr;
    check(cublasCreate(&handle));
    const float alpha = 1, beta = 0;
    for (auto _ : state) {
        check(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, arena->data(),
                           CUDA_R_16BF, n, arena->data() + bytes, CUDA_R_16BF, n, &beta,
                           arena->data() + 2 * bytes, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT));
        cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
    check(cublasDestroy(handle));
    state.counters["TFLOP/s"] =
        benchmark::Counter(2.0 * n * n * n * 1e-12 * static_cast<double>(state.iterations()),
                           benchmark::Counter::kIsRate);
}

void bench_memory_pass(benchmark::State& state) {
    if (!has_gpu(state)) return;
    constexpr Bytes kBytes = 4 * GiB;
    const std::vector<memory::Block> blocks{
        {0, 16384, {{0, kBytes / 16384}, {0, 8192}}, DType::BF16, hash_name("weights")}};
    const auto arena = memory::make_cuda_arena(kBytes, {.device = gpu()});
    arena->fill(blocks, 1);
    std::vector<std::uint64_t> sums(1);
    for (auto _ : state) arena->fingerprint(blocks, sums);
    state.counters["GB/s"] = benchmark::Counter(
        static_cast<double>(kBytes) * 1e-9 * static_cast<double>(state.iterations()),
        benchmark::Counter::kIsRate);
}

BENCHMARK(bench_gemm)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bench_memory_pass)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
