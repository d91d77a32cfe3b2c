#!/bin/bash
# A push within this machine, without Slurm: jobs/mpirun/one-node.sh [RANKS [PUSH FLAGS]]
#   jobs/mpirun/one-node.sh 6 --model qwen3-4b --trainer tp=2 --rollout tp=4
ranks=${1:-16}
[ $# -eq 0 ] || shift
# shellcheck source=jobs/mpirun/launch.sh
source "$(dirname "$0")/launch.sh"
[ $# -gt 0 ] || set -- --model moonlight-16b-a3b --layers 4 --trainer tp=8 --rollout tp=8
exec "${mpirun[@]}" -n "$ranks" "$weightlift" push "$@" --output "results/one-node-$stamp.h5"
