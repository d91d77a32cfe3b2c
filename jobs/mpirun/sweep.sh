#!/bin/bash
# A sweep launched several times, one after the other: jobs/mpirun/sweep.sh [RANKS [JOB.toml [LAUNCHES]]]
ranks=${1:-4} job=${2:-jobs/sweeps/two-cores.toml} launches=${3:-5}
# shellcheck source=jobs/mpirun/launch.sh
source "$(dirname "$0")/launch.sh"
for ((i = 1; i <= launches; i++)); do
    "${mpirun[@]}" -n "$ranks" "$weightlift" sweep "$job" --output "results/sweep-$stamp-$i.h5"
done
