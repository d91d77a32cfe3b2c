#!/bin/bash
# Pushes one tensor of 1 GiB from one trainer to one rollout, and a plain memcpy of the same bytes
# beside it: jobs/push-1gib.sh BUILD_FOLDER OUTPUT.h5
set -euo pipefail
cd "$(dirname "$0")/.."
source jobs/mpirun.sh "$1"
# Two copies for the push, two for the memcpy, and room for MPI.
if [ "$(jobs/available-memory.sh)" -lt 5000 ]; then
    echo "skipped the push of 1 GiB: less than 5 GB of memory are available"
    exit 0
fi
"${mpirun[@]}" -n 2 "$1/weightlift" push \
    --trainer @jobs/layouts/1gib-trainer.json --rollout @jobs/layouts/1gib-rollout.json \
    --iterations 5 --verify fingerprint --reference memcpy --output "$2"
