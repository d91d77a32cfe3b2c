#!/bin/bash
# Trainers and rollouts as two programs of one launch (mpirun's colon form), the counterpart of
# Slurm's heterogeneous jobs: jobs/mpirun/roles.sh TRAINERS ROLLOUTS [PUSH FLAGS]
[ $# -ge 2 ] || { echo "usage: $0 TRAINERS ROLLOUTS [PUSH FLAGS]" >&2 && exit 2; }
trainers=$1 rollouts=$2
shift 2
ranks=$((trainers + rollouts))
# shellcheck source=jobs/mpirun/launch.sh
source "$(dirname "$0")/launch.sh"
[ $# -gt 0 ] || set -- --model moonlight-16b-a3b --layers 4 --trainer "tp=$trainers" --rollout "tp=$rollouts"
set -- "$@" --output "results/roles-$stamp.h5"
exec "${mpirun[@]}" -n "$trainers" "$weightlift" push --role trainer "$@" : \
    -n "$rollouts" "$weightlift" push --role rollout "$@"
