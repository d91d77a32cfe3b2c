#!/bin/bash
# A push within one node:
#   sbatch jobs/slurm/one-node.sh                                   8 trainers, 8 rollouts
#   sbatch --ntasks=6 jobs/slurm/one-node.sh --model qwen3-4b --trainer tp=2 --rollout tp=4
#SBATCH --job-name=weightlift
#SBATCH --nodes=1
#SBATCH --ntasks=16
#SBATCH --time=00:20:00
#SBATCH --output=results/slurm-%j.txt
#SBATCH --signal=TERM@60
# shellcheck source=jobs/slurm/launch.sh
source jobs/slurm/launch.sh
[ $# -gt 0 ] || set -- --model moonlight-16b-a3b --layers 4 --trainer tp=8 --rollout tp=8
exec "${srun[@]}" "$weightlift" push "$@" --output "results/one-node-%j$suffix.h5"
