#!/bin/bash
# Trainers and rollouts on nodes of different kinds: the first component has the trainers, the
# second one the rollouts (mpirun cannot span the components of such a job; srun can).
#   sbatch jobs/slurm/heterogeneous.sh
#   sbatch --ntasks=8 -C train : --ntasks=32 -C serve jobs/slurm/heterogeneous.sh --model …
#SBATCH --job-name=weightlift-het
#SBATCH --time=00:30:00
#SBATCH --output=results/slurm-%j.txt
#SBATCH --signal=TERM@60
#SBATCH --nodes=1 --ntasks=8
#SBATCH hetjob
#SBATCH --nodes=1 --ntasks=8
# shellcheck source=jobs/slurm/launch.sh
source jobs/slurm/launch.sh
[ $# -gt 0 ] || set -- --model moonlight-16b-a3b --layers 4 --trainer tp=8 --rollout tp=8
# Not %j: a step of the second component has another id.
set -- "$@" --output "results/heterogeneous-$SLURM_JOB_ID$suffix.h5"
exec "${srun[@]}" --het-group=0 "$weightlift" push --role trainer "$@" : \
    --het-group=1 "$weightlift" push --role rollout "$@"
