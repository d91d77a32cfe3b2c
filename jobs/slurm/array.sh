#!/bin/bash
# A sweep whose launches are repeated: each task of the array is one launch of all cases, which is
# what `weightlift compare` counts. A requeued task goes on where it stopped.
#   sbatch --array=1-5 jobs/slurm/array.sh jobs/sweeps/two-cores.toml
#   weightlift report results/sweep-JOB-*.h5 -o sweep.html
#SBATCH --job-name=weightlift-sweep
#SBATCH --array=1-5%1
#SBATCH --nodes=1
#SBATCH --ntasks=4
#SBATCH --time=00:30:00
#SBATCH --output=results/slurm-%A_%a.txt
#SBATCH --requeue
# shellcheck source=jobs/slurm/launch.sh
source jobs/slurm/launch.sh
exec "${srun[@]}" "$weightlift" sweep "${1:-jobs/sweeps/two-cores.toml}" --resume \
    --output "results/sweep-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID.h5"
