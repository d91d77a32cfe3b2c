#!/bin/bash
# The demonstration: jobs/demo.sh BUILD_FOLDER. Pushes a small model of the DeepSeek architecture
# from 8 trainers to 16 rollouts, then one large tensor, and shows what the results file holds.
set -euo pipefail
cd "$(dirname "$0")/.."
source jobs/mpirun.sh "$1"
stamp=$(date -u +%Y%m%dT%H%M%SZ)

echo "== 8 trainers (tp=8) push tiny-deepseek to 16 rollouts (tp=16)"
"${mpirun[@]}" -n 24 "$1/weightlift" push --model tiny-deepseek --trainer tp=8 --rollout tp=16 \
    --iterations 20 --warmup 2 --output "results/demo-$stamp.h5"
echo
echo "== 1 trainer pushes a tensor of 1 GiB to 1 rollout; a plain memcpy of the same bytes beside it"
jobs/push-1gib.sh "$1" "results/demo-1gib-$stamp.h5"
echo
echo "== weightlift show results/demo-$stamp.h5"
"$1/weightlift" show "results/demo-$stamp.h5"
