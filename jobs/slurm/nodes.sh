#!/bin/bash
# A push between nodes, checked by doctor first; one task a GPU or a NIC is a good start:
#   sbatch --nodes=4 --ntasks-per-node=8 jobs/slurm/nodes.sh --model qwen3-30b-a3b \
#          --trainer tp=2,ep=8,etp=1,dp=8 --rollout tp=8,engines=2 --cluster h100-ib400
#SBATCH --job-name=weightlift-nodes
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --time=00:30:00
#SBATCH --output=results/slurm-%j.txt
#SBATCH --signal=TERM@60
# shellcheck source=jobs/slurm/launch.sh
source jobs/slurm/launch.sh
[ $# -gt 0 ] || set -- --model moonlight-16b-a3b --layers 4 --trainer tp=8 --rollout tp=8
exec "${srun[@]}" "$weightlift" push "$@" --preflight --output "results/nodes-%j$suffix.h5"
