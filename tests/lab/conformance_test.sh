#!/bin/bash
# In the virtual machine: the conformance suite of the transports, over verbs.
# From run.sh it has WEIGHTLIFT_LAB_BUILD, the build folder, and MPIEXEC, the launcher with its flags.
set -euo pipefail
read -ra launcher <<<"${MPIEXEC?}"
for ranks in 2 4; do
    "${launcher[@]}" -n $ranks "${WEIGHTLIFT_LAB_BUILD?}/tests/conformance/transport_conformance" \
        --gtest_filter='*verbs*' --gtest_brief=1 --gtest_color=no | tee /tmp/conformance.log
    # A filter that matches nothing passes.
    grep -Eq '\[  PASSED  \] [1-9][0-9]* tests?' /tmp/conformance.log
done
