// Bytes per second of the bulk operations on GPU memory, beside the GPU's own copy and set. The
// copy's figure counts the bytes read and those written, as both take bandwidth.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/cuda/copy.hpp"
#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/error.hpp"
#include "weightlift/cuda/stream.hpp"
#include "weightlift/memory/cuda_arena.hpp"

namespace {

using namespace weightlift;
using namespace weightlift::memory;

constexpr Bytes kBytes = 4 * GiB;

/// The blocks of a layer of experts, as a model has them: 7168 columns, 2048 rows.
std::vector<Block> model_blocks(DType dtype) {
    const std::uint64_t columns = 7168, rows = 2048;
    const Bytes row_bytes = columns * element_bytes(dtype);
    std::vector<Block> blocks;
    for (Bytes at = 0; at + rows * row_bytes <= kBytes; at += rows * row_bytes)
        blocks.push_back({at,
                          row_bytes,
                          {{0, rows}, {0, columns}},
                          dtype,
                          hash_name("expert " + std::to_string(blocks.size()))});
    return blocks;
}

/// The same bytes in rows of 512 bytes: a column-sharded tensor.
std::vector<Block> short_rows(DType dtype) {
    const std::uint64_t columns = 512 / element_bytes(dtype);
    return {{0, 512, {{0, kBytes / 512}, {0, columns}}, dtype, hash_name("shard")}};
}

Bytes bytes_of(const std::vector<Block>& blocks) {
    Bytes bytes = 0;
    for (const Block& block : blocks) bytes += block.box.elements() * element_bytes(block.dtype);
    return bytes;
}

bool has_gpu(benchmark::State& state) {
    const std::string why = weightlift::cuda::why_no_devices();
    if (!why.empty()) state.SkipWithError(why.c_str());
    return why.empty();
}

template <class F>
void measure(benchmark::State& state, F operation) {
    if (!has_gpu(state)) return;
    const auto dtype = static_cast<DType>(state.range(0));
    const auto blocks = state.range(1) == 0 ? model_blocks(dtype) : short_rows(dtype);
    const auto arena = make_cuda_arena(kBytes, {});
    arena->fill(blocks, 1);
    for (auto _ : state) operation(*arena, blocks);
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes_of(blocks)));
    state.SetLabel(std::string(to_string(dtype)) +
                   (state.range(1) == 0 ? ", rows of 7168" : ", rows of 512 B"));
}

void bench_fill(benchmark::State& state) {
    measure(state, [](Arena& arena, const auto& blocks) { arena.fill(blocks, 1); });
}
void bench_poison(benchmark::State& state) {
    measure(state, [](Arena& arena, const auto& blocks) { arena.poison(blocks); });
}
void bench_fingerprint(benchmark::State& state) {
    std::vector<std::uint64_t> sums;
    measure(state, [&](Arena& arena, const auto& blocks) {
        sums.resize(blocks.size());
        arena.fingerprint(blocks, sums);
    });
}
void bench_compare(benchmark::State& state) {
    measure(state, [](Arena& arena, const auto& blocks) {
        auto found = arena.compare(blocks, 1);
        benchmark::DoNotOptimize(found);
    });
}

void bench_device_memcpy(benchmark::State& state) {
    if (!has_gpu(state)) return;
    const auto arena = make_cuda_arena(kBytes, {});
    for (auto _ : state) {
        weightlift::cuda::check(cudaMemcpyAsync(arena->data(), arena->data() + kBytes / 2,
                                                kBytes / 2, cudaMemcpyDeviceToDevice),
                                "cudaMemcpyAsync");
        weightlift::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBytes));
    state.SetLabel("read and written");
}
void bench_device_memset(benchmark::State& state) {
    if (!has_gpu(state)) return;
    const auto arena = make_cuda_arena(kBytes, {});
    for (auto _ : state) {
        weightlift::cuda::check(cudaMemsetAsync(arena->data(), 1, kBytes), "cudaMemsetAsync");
        weightlift::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBytes));
}

/// What a copy engine moves from one GPU to another: the ceiling of a push over NVLink.
bool has_two_gpus(benchmark::State& state) {
    const bool has = weightlift::cuda::devices().size() >= 2;
    if (!has) state.SkipWithError("needs two GPUs");
    return has;
}

void bench_peer_copy(benchmark::State& state) {
    constexpr Bytes kBlock = 8'000'000'000;
    if (!has_two_gpus(state)) return;
    const auto src = make_cuda_arena(kBlock, {.device = 0});
    const auto dst = make_cuda_arena(kBlock, {.device = 1});
    const auto copy = [&] {
        weightlift::cuda::check(cudaMemcpyPeerAsync(dst->data(), 1, src->data(), 0, kBlock),
                                "cudaMemcpyPeerAsync");
        weightlift::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    };
    weightlift::cuda::check(cudaDeviceEnablePeerAccess(1, 0), "cudaDeviceEnablePeerAccess");
    copy();
    for (auto _ : state) copy();
    state.counters["GB/s"] = benchmark::Counter(
        static_cast<double>(kBlock) * 1e-9 * static_cast<double>(state.iterations()),
        benchmark::Counter::kIsRate);
    (void)cudaDeviceDisablePeerAccess(1);
}

/// The same bytes in many strided copies of range(0) bytes, rows of 4 KiB, one by one on four
/// streams, or (range(1)) as a graph of the same copies that is launched again and again.
void bench_peer_copies(benchmark::State& state) {
    constexpr std::size_t kStreams = 4;
    constexpr Bytes kRow = 4 * KiB;
    if (!has_two_gpus(state)) return;
    const auto bytes = static_cast<Bytes>(state.range(0));
    const auto src = make_cuda_arena(2 * kBytes, {.device = 0});
    const auto dst = make_cuda_arena(kBytes, {.device = 1});
    weightlift::cuda::check(cudaDeviceEnablePeerAccess(1, 0), "cudaDeviceEnablePeerAccess");
    const std::vector<weightlift::cuda::Stream> streams(kStreams);
    const std::vector<weightlift::cuda::Event> events(kStreams);
    const auto post = [&] {
        events[0].record(streams[0]);
        for (std::size_t i = 1; i < kStreams; ++i) streams[i].wait(events[0]);
        for (Bytes at = 0, i = 0; at < kBytes; at += bytes, ++i)
            weightlift::cuda::copy_rows(streams[i % kStreams], dst->data() + at, kRow,
                                        src->data() + 2 * at, 2 * kRow, bytes / kRow, kRow);
        for (std::size_t i = 1; i < kStreams; ++i) {
            events[i].record(streams[i]);
            streams[0].wait(events[i]);
        }
    };
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t again = nullptr;
    if (state.range(1) != 0) {
        weightlift::cuda::check(
            cudaStreamBeginCapture(streams[0].get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
        post();
        weightlift::cuda::check(cudaStreamEndCapture(streams[0].get(), &graph),
                                "cudaStreamEndCapture");
        weightlift::cuda::check(cudaGraphInstantiate(&again, graph, 0), "cudaGraphInstantiate");
    }
    const auto push = [&] {
        if (again == nullptr)
            post();
        else
            weightlift::cuda::check(cudaGraphLaunch(again, streams[0].get()), "cudaGraphLaunch");
        streams[0].synchronize();
    };
    push();
    for (auto _ : state) push();
    state.counters["GB/s"] = benchmark::Counter(
        static_cast<double>(kBytes) * 1e-9 * static_cast<double>(state.iterations()),
        benchmark::Counter::kIsRate);
    if (again != nullptr) {
        (void)cudaGraphExecDestroy(again);
        (void)cudaGraphDestroy(graph);
    }
    (void)cudaDeviceDisablePeerAccess(1);
}

void cases(benchmark::internal::Benchmark* bench) {
    for (const DType dtype : {DType::BF16, DType::F32, DType::F8E4M3})
        for (const int shape : {0, 1}) bench->Args({static_cast<int>(dtype), shape});
    bench->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(bench_device_memcpy)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bench_peer_copy)->Iterations(20)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bench_peer_copies)
    ->ArgNames({"bytes", "graph"})
    ->ArgsProduct({{64 * KiB, MiB, 16 * MiB, 256 * MiB}, {0, 1}})
    ->Iterations(20)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(bench_device_memset)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bench_fill)->Apply(cases);
BENCHMARK(bench_poison)->Apply(cases);
BENCHMARK(bench_fingerprint)->Apply(cases);
BENCHMARK(bench_compare)->Apply(cases);

}  // namespace

BENCHMARK_MAIN();
