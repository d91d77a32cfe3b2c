#!/bin/bash
# The regression test of jobs/slurm/nightly.sh without Slurm, for cron: jobs/mpirun/nightly.sh [RANKS [PUSH FLAGS]]
# The same variables: WEIGHTLIFT_HISTORY, WEIGHTLIFT_NIGHTS, WEIGHTLIFT_THRESHOLD.
ranks=${1:-16}
[ $# -eq 0 ] || shift
# shellcheck source=jobs/mpirun/launch.sh
source "$(dirname "$0")/launch.sh"
history=${WEIGHTLIFT_HISTORY:-results/nightly}
[ $# -gt 0 ] || set -- --model moonlight-16b-a3b --layers 4 --trainer tp=8 --rollout tp=8
mkdir -p "$history/rejected"
tonight=$history/rejected/night-$stamp.h5
"${mpirun[@]}" -n "$ranks" "$weightlift" push "$@" --output "$tonight"
if [ "$(find "$history" -maxdepth 1 -name '*.h5' | wc -l)" -gt 0 ]; then
    "$weightlift" compare "$history" "$tonight" --history "${WEIGHTLIFT_NIGHTS:-20}" \
        --threshold "${WEIGHTLIFT_THRESHOLD:-5%}"
fi
mv -n "$tonight" "$history/"
