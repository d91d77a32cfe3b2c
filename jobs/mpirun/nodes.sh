#!/bin/bash
# A push between hosts, without Slurm, checked by doctor first: jobs/mpirun/nodes.sh HOSTS RANKS [PUSH FLAGS]
#   jobs/mpirun/nodes.sh n1:8,n2:8 16 --model qwen3-30b-a3b --trainer tp=8 --rollout tp=8
[ $# -ge 2 ] || { echo "usage: $0 HOST:SLOTS,… RANKS [PUSH FLAGS]" >&2 && exit 2; }
hosts=$1 ranks=$2
shift 2
# shellcheck source=jobs/mpirun/launch.sh
source "$(dirname "$0")/launch.sh"
[ $# -gt 0 ] || set -- --model moonlight-16b-a3b --layers 4 --trainer tp=8 --rollout tp=8
exec "${mpirun[@]}" --host "$hosts" -n "$ranks" "$weightlift" push "$@" --preflight \
    --output "results/nodes-$stamp.h5"
