#!/bin/bash
# A regression test for every night: one push, held against the last ones. Exit code 0, or 7 where
# it is slower than all of the last 20 nights and by more than the threshold; then, as after every
# other failure, the night's file does not join the history.
#   scrontab:  #SCRON --chdir=/path/to/weightlift
#              0 3 * * * jobs/slurm/nightly.sh
# WEIGHTLIFT_HISTORY   folder of the nights (default results/nightly)
# WEIGHTLIFT_NIGHTS    how many of them decide (default 20: fewer cannot give p < 0.05)
# WEIGHTLIFT_THRESHOLD smaller changes do not matter (default 5%)
#SBATCH --job-name=weightlift-nightly
#SBATCH --nodes=1
#SBATCH --ntasks=16
#SBATCH --time=00:30:00
#SBATCH --output=results/slurm-%j.txt
#SBATCH --signal=TERM@60
# shellcheck source=jobs/slurm/launch.sh
source jobs/slurm/launch.sh
history=${WEIGHTLIFT_HISTORY:-results/nightly} nights=${WEIGHTLIFT_NIGHTS:-20}
[ $# -gt 0 ] || set -- --model moonlight-16b-a3b --layers 4 --trainer tp=8 --rollout tp=8
mkdir -p "$history/rejected"
tonight=$history/rejected/night-$SLURM_JOB_ID$suffix.h5
"${srun[@]}" "$weightlift" push "$@" --output "$tonight"
earlier=$(find "$history" -maxdepth 1 -name '*.h5' | wc -l)
if [ "$earlier" -gt 0 ]; then
    "$weightlift" compare "$history" "$tonight" --history "$nights" \
        --threshold "${WEIGHTLIFT_THRESHOLD:-5%}"
fi
# compare says that fewer nights cannot decide; they join the history all the same.
mv -n "$tonight" "$history/"
