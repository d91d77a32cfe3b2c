#!/bin/bash
# Runs the benchmarks: jobs/bench.sh BUILD_FOLDER [PREFIX]. With a prefix, keeps what they say in
# PREFIX-memory.json, PREFIX-plan.json and PREFIX-push.h5; PREFIX-cuda_memory.json where CUDA is
# built in.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 prefix=${2-}
for name in memory plan cuda_memory; do
    # Absent from builds without CUDA.
    [ -x "$build/tests/bench/${name}_bench" ] || [ $name != cuda_memory ] || continue
    "$build/tests/bench/${name}_bench" ${prefix:+"--benchmark_out=$prefix-$name.json"}
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
jobs/push-1gib.sh "$build" "${prefix:-$folder/bench}-push.h5"
