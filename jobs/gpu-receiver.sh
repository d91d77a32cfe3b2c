#!/bin/bash
# What pushes cost a GPU that computes: a matrix product and a pass over memory on GPU 1 while
# weights come in from GPU 0, before and after without; the same on GPU 0, which sends.
# jobs/gpu-receiver.sh BUILD_FOLDER OUTPUT_FOLDER; jobs/gpu-receiver-table.py makes README's table.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 out=$2
source jobs/mpirun.sh "$build"
mkdir -p "$out"
load() { # NAME GPU
    echo "== load on GPU $2: $1"
    WEIGHTLIFT_BENCH_GPU=$2 "$build/tests/bench/gpu_load_bench" --benchmark_min_time=2 \
        --benchmark_out="$out/load-$1.json" --benchmark_out_format=json
}
push() { # NAME
    local flags=(push --model deepseek-v2-lite --trainer tp=1 --rollout tp=1 --memory cuda
        --transport cuda_ipc --verify none --iterations 20 --duration 12s --output "$out/beside-$1.h5")
    "${mpirun[@]}" -n 1 "$build/weightlift" "${flags[@]}" --role trainer --gpu 0 \
        : -n 1 "$build/weightlift" "${flags[@]}" --role rollout --gpu 1
}
for gpu in 1 0; do
    side=$([ $gpu = 1 ] && echo receiver || echo source)
    load "$side-idle-1" $gpu
    push "$side" &
    sleep 4 # set up, and pushing
    load "$side-pushed" $gpu
    wait $!
    load "$side-idle-2" $gpu
done
