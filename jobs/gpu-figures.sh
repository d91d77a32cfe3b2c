#!/bin/bash
# Pushes from GPU 0 to GPU 1 and, beside each, the copy engine's own rate for one large block:
# jobs/gpu-figures.sh BUILD_FOLDER OUTPUT_FOLDER [LAUNCHES [NAMES]], NAMES a regular expression: those
# alone. Puts by NCCL where the build has NCCL 2.29. Two GPUs that can map each other's
# memory; jobs/gpu-table.py makes the table of README from what this leaves.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 out=$2 launches=${3:-3} only=${4:-.}
source jobs/mpirun.sh "$build"
mkdir -p "$out"
push() { # NAME TRAINERS ROLLOUTS FLAG…
    local name=$1 trainers=$2 rollouts=$3
    shift 3
    [[ $name =~ $only ]] || return 0
    local flags=(push "$@" --memory cuda --iterations 20 --output "$out/$name-$launch.h5")
    echo "== $name, launch $launch"
    "${mpirun[@]}" -n "$trainers" "$build/weightlift" "${flags[@]}" --role trainer --gpu 0 \
        : -n "$rollouts" "$build/weightlift" "${flags[@]}" --role rollout --gpu 1 ||
        failed+=("$name-$launch")
}
failed=()
nccl=$("$build/weightlift" --version | awk '$1 == "nccl" { print $2 }')
has_puts=$(printf '2.29\n%s\n' "$nccl" | sort -CV && echo yes || true)
"$build/tests/bench/cuda_memory_bench" --benchmark_filter=peer_copies \
    --benchmark_out="$out/peer-copies.json" --benchmark_out_format=json
for ((launch = 1; launch <= launches; ++launch)); do
    "$build/tests/bench/cuda_memory_bench" --benchmark_filter=peer_copy \
        --benchmark_out="$out/peer-copy-$launch.json" --benchmark_out_format=json
    push v2lite 1 1 --model deepseek-v2-lite --trainer tp=1 --rollout tp=1 --transport cuda_ipc
    push v2lite-nccl 1 1 --model deepseek-v2-lite --trainer tp=1 --rollout tp=1 --transport nccl
    [ -z "$has_puts" ] || push v2lite-nccl-put 1 1 --model deepseek-v2-lite --trainer tp=1 --rollout tp=1 \
        --transport nccl --nccl-mode put --device-memory vmm
    push v2lite-staged 1 1 --model deepseek-v2-lite --layers 8 --trainer tp=1 --rollout tp=1 --transport staged
    push qwen3-4-2 4 2 --model qwen3-8b --trainer tp=4 --rollout tp=2 --transport cuda_ipc
    push qwen3-2-4 2 4 --model qwen3-8b --trainer tp=2 --rollout tp=4 --transport cuda_ipc
    push moonlight 8 8 --model moonlight-16b-a3b --trainer tp=2,ep=8,etp=1,dp=4 \
        --rollout tp=8,ep=8 --transport cuda_ipc
done
# The link carries one engine's bytes or both's, the rest moves within GPU 1.
launch=1
for strategy in direct replica broadcast relay; do
    push "two-engines-$strategy" 2 4 --model qwen3-4b --trainer tp=2 --rollout tp=2,engines=2 \
        --transport cuda_ipc --strategy "$strategy"
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}" >&2 && exit 1; }
