#!/bin/bash
# Runs the benchmarks: jobs/bench.sh BUILD_FOLDER [PREFIX]. With a prefix, keeps what they say in
# PREFIX-memory.json, PREFIX-plan.json and PREFIX-push.h5; PREFIX-cuda_memory.json where there is a
# GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 prefix=${2-}
for name in memory plan cuda_memory; do
    if [ $name = cuda_memory ] && ! { [ -x "$build/tests/bench/${name}_bench" ] && nvidia-smi -L >/dev/null 2>&1; }; then
        echo "no GPU, or a build without CUDA: benchmarks of GPU memory are left out"
        continue
    fi
    "$build/tests/bench/${name}_bench" ${prefix:+"--benchmark_out=$prefix-$name.json"}
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
jobs/push-1gib.sh "$build" "${prefix:-$folder/bench}-push.h5"
