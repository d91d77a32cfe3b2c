#!/bin/bash
# A push by copy engines launches nothing on the GPU that receives it: tests/gpu/receiver_trace.sh
# BUILD_FOLDER. Traces both ranks by CUPTI. Needs two GPUs that can map each other's memory.
set -euo pipefail
build=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CUDA_INJECTION64_PATH=$build/tests/gpu/libkernel_trace.so
common=(push --model deepseek-v2-lite --layers 4 --trainer tp=1 --rollout tp=1 --memory cuda
    --transport cuda_ipc --verify none --iterations 5 --quiet --output "$folder/push.h5")
# shellcheck disable=SC2086
${MPIEXEC:-mpirun --oversubscribe} \
    -n 1 env WEIGHTLIFT_TRACE="$folder/trainer" "$build/weightlift" "${common[@]}" --role trainer --gpu 0 \
    : -n 1 env WEIGHTLIFT_TRACE="$folder/rollout" "$build/weightlift" "${common[@]}" --role rollout --gpu 1
for side in trainer rollout; do
    echo "$side:"
    sed 's/^/  /' "$folder/$side".*
    grep -qx 'dropped: 0' "$folder/$side".* || { echo "$side: the trace is not whole" >&2 && exit 1; }
done
grep -q '^copy to a peer' "$folder/trainer".* || { echo "the trainer's trace shows no copy to a peer" >&2 && exit 1; }
if grep '^kernel' "$folder/rollout".*; then
    echo "the rollout's trace shows kernels" >&2
    exit 1
fi
