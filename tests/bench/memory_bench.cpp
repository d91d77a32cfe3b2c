// GB/s of the host kernels over one 64 MiB tensor, per dtype and instruction set, and of a memcpy
// for scale.
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "weightlift/base/hash.hpp"
#include "weightlift/memory/host_kernels.hpp"

namespace {

using namespace weightlift;
using namespace weightlift::memory;

constexpr Bytes kRowBytes = 8192;
constexpr std::uint64_t kRows = 8192;

Block block_of(DType dtype) {
    return {0,
            kRowBytes,
            {{0, kRows}, {0, kRowBytes / element_bytes(dtype)}},
            dtype,
            hash_name("bench")};
}

template <class F>
void measure(benchmark::State& state, F kernel) {
    const Block block = block_of(static_cast<DType>(state.range(0)));
    const Isa isa = static_cast<Isa>(state.range(1));
    if (isa == Isa::Avx2 && best_isa() != Isa::Avx2) {
        state.SkipWithError("this processor has no AVX2");
        return;
    }
    std::vector<std::byte> memory(kRows * kRowBytes);
    fill(memory.data(), {&block, 1}, 1);
    for (auto _ : state) kernel(memory.data(), block, isa);
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kRows * kRowBytes));
    state.SetLabel(std::string(to_string(block.dtype)) +
                   (isa == Isa::Avx2 ? " avx2" : " baseline"));
}

void bench_fill(benchmark::State& state) {
    measure(state, [](std::byte* base, const Block& block, Isa isa) {
        fill(base, {&block, 1}, 1, isa);
    });
}

void bench_fingerprint(benchmark::State& state) {
    measure(state, [](std::byte* base, const Block& block, Isa isa) {
        std::uint64_t sum = 0;
        fingerprint(base, {&block, 1}, {&sum, 1}, isa);
        benchmark::DoNotOptimize(sum);
    });
}

void bench_compare(benchmark::State& state) {
    measure(state, [](std::byte* base, const Block& block, Isa isa) {
        auto found = compare(base, {&block, 1}, 1, isa);
        benchmark::DoNotOptimize(found);
    });
}

void bench_memcpy(benchmark::State& state) {
    std::vector<std::byte> from(kRows * kRowBytes);
    std::vector<std::byte> to(from.size());
    for (auto _ : state) {
        std::memcpy(to.data(), from.data(), from.size());
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(from.size()));
}

void all_variants(benchmark::internal::Benchmark* bench) {
    for (const DType dtype : {DType::BF16, DType::F32, DType::F8E4M3})
        for (const Isa isa : {Isa::Baseline, Isa::Avx2})
            bench->Args({static_cast<int>(dtype), static_cast<int>(isa)});
}

}  // namespace

BENCHMARK(bench_fill)->Apply(all_variants);
BENCHMARK(bench_fingerprint)->Apply(all_variants);
BENCHMARK(bench_compare)->Apply(all_variants);
BENCHMARK(bench_memcpy);
BENCHMARK_MAIN();
