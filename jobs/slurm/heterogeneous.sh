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
results=results/heterogeneous-$SLURM_JOB_ID$suffix.h5
set -- "$@" --output "$results"
"${srun[@]}" --het-group=0 "$weightlift" push --role trainer "$@" : \
    --het-group=1 "$weightlift" push --role rollout "$@" &
launcher=$!
trap 'kill -TERM $launcher' TERM
# All tasks may have ended, and srun still wait for a thread of its PMIx plugin (Slurm 22.05, now
# and then): the job would run on to its limit. The results file is there once they have.
waited=0
while kill -0 $launcher 2>/dev/null; do
    sleep 1 || true
    [ -e "$results" ] || continue
    waited=$((waited + 1))
    if [ $waited -gt 20 ]; then
        echo "srun has not ended 20 s after the last task; the results are whole" >&2
        kill -KILL $launcher
        exit "$("$weightlift" show --json "$results" | grep -o '"exit_code": *[0-9]*' | grep -o '[0-9]*$')"
    fi
done
wait $launcher
