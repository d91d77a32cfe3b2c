#!/bin/bash
# Runs the tests that need a GPU: tests/gpu/run.sh BUILD_FOLDER. Where compute-sanitizer is there,
# the kernels once more under memcheck and racecheck.
set -euo pipefail
build=$1
ctest --output-on-failure --no-tests=error --test-dir "$build" -L gpu
# The conformance suite over GPU memory, by ranks that share the GPUs there are.
if [ -x "$build/tests/conformance/transport_conformance" ]; then
    # Together: most of their time is NCCL's, which makes a communicator for each test.
    declare -A started
    for memory in cuda cuda-vmm; do
        for ranks in 2 4; do
            # shellcheck disable=SC2086
            WEIGHTLIFT_TEST_MEMORY=$memory ${MPIEXEC:-mpirun --oversubscribe} -n $ranks \
                "$build/tests/conformance/transport_conformance" --gtest_brief=1 \
                >"$build/conformance-$memory-$ranks.log" 2>&1 &
            started["$memory-$ranks"]=$!
        done
    done
    for which in "${!started[@]}"; do
        echo "conformance suite, $which ranks"
        wait "${started[$which]}" || { cat "$build/conformance-$which.log" && exit 1; }
        grep -E 'PASSED|SKIPPED' "$build/conformance-$which.log"
    done
    for memory in cuda cuda-vmm; do
        echo "more than 2 GiB, $memory memory"
        # shellcheck disable=SC2086
        WEIGHTLIFT_TEST_MEMORY=$memory ${MPIEXEC:-mpirun --oversubscribe} -n 2 \
            "$build/tests/conformance/transport_large" --gtest_brief=1
    done
fi
# Ranks that share a GPU are refused by name, before anything is allocated.
if "$build/weightlift" --version | grep -q 'transports.*nccl'; then
    echo "nccl: two ranks on one GPU"
    status=0
    # shellcheck disable=SC2086
    said=$(${MPIEXEC:-mpirun --oversubscribe} -n 2 "$build/weightlift" push --model tiny-deepseek \
        --trainer tp=1 --rollout tp=1 --memory cuda --gpu 0 --transport nccl --iterations 1 \
        --output "$build/refused.h5" 2>&1) || status=$?
    if [ $status -ne 2 ] || ! grep -q 'rank 0 .*and rank 1 .*share GPU 0' <<<"$said"; then
        echo "exit $status, not 2 with both ranks and the GPU: $said" >&2
        exit 1
    fi
    if [ "$(nvidia-smi -L | wc -l)" -ge 2 ]; then
        lose_peer() {
            # shellcheck disable=SC2086
            "$(dirname "$0")/../conformance/lost_peer_test.sh" \
                "$build/tests/conformance/transport_lost_peer" nccl "$1" ${MPIEXEC:-mpirun --oversubscribe}
        }
        for how in kill stop; do
            echo "nccl: the destination is lost ($how)"
            lose_peer $how
        done
        version=$("$build/weightlift" --version | awk '$1 == "nccl" { print $2 }')
        if printf '2.29\n%s\n' "$version" | sort -CV; then
            export WEIGHTLIFT_TEST_NCCL_MODE=put WEIGHTLIFT_TEST_MEMORY=cuda-vmm
            echo "nccl: conformance suite by puts"
            # shellcheck disable=SC2086
            ${MPIEXEC:-mpirun --oversubscribe} -n 2 "$build/tests/conformance/transport_conformance" \
                --gtest_brief=1 --gtest_filter='*nccl*'
            for how in kill stop; do
                echo "nccl: the destination of puts is lost ($how)"
                lose_peer $how
            done
            unset WEIGHTLIFT_TEST_NCCL_MODE WEIGHTLIFT_TEST_MEMORY
        fi
    fi
fi
if [ "$(nvidia-smi -L | wc -l)" -ge 1 ]; then
    echo "more than a GPU has: all ranks end, and the GPU, the rank and the bytes are named"
    status=0
    # shellcheck disable=SC2086
    said=$(${MPIEXEC:-mpirun --oversubscribe} -n 3 "$build/weightlift" push --model deepseek-v3 \
        --trainer tp=2 --rollout tp=1 --memory cuda --iterations 1 --output "$build/refused.h5" 2>&1) || status=$?
    if [ $status -ne 2 ] || ! grep -q 'GPU.* has .* free, but its .* ranks* need .*rank ' <<<"$said"; then
        echo "exit $status, not 2 with rank and bytes: $said" >&2
        exit 1
    fi
    grep 'weightlift: ' <<<"$said"
fi
if [ "$(nvidia-smi -L | wc -l)" -ge 2 ] && [ -e "$build/tests/gpu/libkernel_trace.so" ]; then
    echo "the trace of a push's receiver"
    "$(dirname "$0")/receiver_trace.sh" "$build"
fi
if ! sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null); then
    echo "no compute-sanitizer: memcheck and racecheck are left out" >&2
    exit 0
fi
# Large blocks would take minutes there and meet nothing new.
for tool in memcheck racecheck; do
    echo "compute-sanitizer --tool $tool"
    status=0
    "$sanitizer" --tool $tool --error-exitcode 9 --log-file "$build/$tool.log" \
        "$build/tests/gpu/gpu_memory" --gtest_brief=1 --gtest_filter='*Kernels*-*large_blocks*' || status=$?
    # 77: there is no GPU, as the tests have said.
    if [ $status -ne 0 ] && [ $status -ne 77 ]; then
        cat "$build/$tool.log"
        exit $status
    fi
done
