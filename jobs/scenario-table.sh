#!/bin/bash
# What each strategy would take in the published runs of jobs/scenarios, beside what was published:
# jobs/scenario-table.sh BUILD_FOLDER [OUTPUT]. README quotes results/reference/scenarios.md.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 output=${2-results/reference/scenarios.md}
{
    echo "# Published runs, simulated"
    echo
    echo "By \`jobs/scenario-table.sh\`: bounds and simulated times of the bytes on the wire alone, on clusters whose rates are"
    echo "in part assumptions (\`jobs/clusters\`). Published times include what their runs did besides: pausing, gathering,"
    echo "converting, loading. Trainers and rollouts stand on nodes of their own; short rows are packed. *moved*: between"
    echo "ranks, in all steps."
    echo
    "$build/weightlift" plan --simulate --scenarios jobs/scenarios
} >"$output.part"
mv "$output.part" "$output"
