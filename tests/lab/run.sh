#!/bin/bash
# Runs test suites on software RDMA devices, in virtual machines: tests/lab/run.sh SUITE…
#   SUITE  one of the table below; ci: what fits the time of CI; all: all of them, in full
# Builds the program and its tests in build/release, or takes those of WEIGHTLIFT_LAB_BUILD. Where
# there can be no virtual machine it says why and fails; with WEIGHTLIFT_SKIP_LAB=1 it runs nothing,
# and says that. WEIGHTLIFT_LAB_ALL=1: single suites in full, too. WEIGHTLIFT_LAB_OUT: a folder,
# below this one, for the figures of the suite speed.
# For more variables see softroce-vm.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."

# name | options of softroce-vm.sh | what runs in it
suites='
conformance|-r 1|tests/lab/conformance_test.sh
fence      |-r 1|python3 tests/lab/fence_test.py
device     |-r 1|python3 tests/lab/scenarios_test.py OneDevice
addresses  |-r 1|python3 tests/lab/scenarios_test.py Ipv6
strategies |-r 1|python3 tests/lab/scenarios_test.py OneDeviceStrategies
queues     |-r 1|python3 tests/lab/scenarios_test.py ShortQueues
many       |-r 1|python3 tests/lab/many_test.py
speed      |-r 1|python3 tests/lab/speed_test.py
stripes    |-p|python3 tests/lab/scenarios_test.py Striped EndsStriped
ends       |-p|python3 tests/lab/scenarios_test.py Ends EndsIpv6
counters   |-p|python3 tests/lab/counter_test.py
faults     |-p|python3 tests/lab/lost_link_test.py
doctor     |-p|python3 tests/lab/doctor_test.py
hosts      |-n 2 -c 1 -m 2000|python3 tests/lab/scenarios_test.py TwoHosts TwoHostsStriped TwoHostsStrategies'

column() { # NAME COLUMN
    awk -F' *[|]' -v name="$1" -v column="$2" '$1 == name { print $column }' <<<"$suites"
}
names() { awk -F' *[|]' 'NF { print $1 }' <<<"$suites"; }

# ---- in the virtual machine: runs suites, one after the other ------------------------------------

run_inside() { # SUITE…
    local suite begin command broken=()
    local flags=(--oversubscribe --allow-run-as-root --mca pml ob1)
    if [ "$(grep -c ' node[0-9]*$' /etc/hosts)" -gt 1 ]; then
        flags+=(--mca btl "self,vader,tcp" --mca plm_rsh_agent rsh
            --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0)
    else
        flags+=(--mca btl "self,vader")
    fi
    export WEIGHTLIFT=$WEIGHTLIFT_LAB_BUILD/weightlift PYTHONDONTWRITEBYTECODE=1
    export MPIEXEC="mpirun ${flags[*]}"
    for suite in "$@"; do
        read -ra command <<<"$(column "$suite" 3)"
        # The one that has h5py.
        if [ "${command[0]}" = python3 ] && [ -x /usr/bin/python3 ]; then command[0]=/usr/bin/python3; fi
        begin=$SECONDS
        echo "--- $suite: ${command[*]}"
        "${command[@]}" || broken+=("$suite")
        echo "--- $suite: $((SECONDS - begin)) s"
    done
    [ ${#broken[@]} = 0 ] || { echo "--- failed: ${broken[*]}" && return 1; }
}

if [ "${1-}" = --inside ]; then
    shift
    run_inside "$@"
    exit
fi

# ---- on the host: boots one machine for all suites that want the same one ------------------------

if [ "${WEIGHTLIFT_SKIP_LAB-}" = 1 ]; then
    echo "skipped, for WEIGHTLIFT_SKIP_LAB=1: the tests on software RDMA devices (${*:-none})"
    exit 0
fi

run_outside() { # SUITE…
    local limit=900 wanted suite failed=0 machine machines together options
    case ${*-} in
    ci) mapfile -t wanted < <(names) ;;
    all)
        mapfile -t wanted < <(names)
        export WEIGHTLIFT_LAB_ALL=1
        ;;
    *) wanted=("$@") ;;
    esac
    [ ${#wanted[@]} -gt 0 ] || wanted=(none)
    if [ -n "${WEIGHTLIFT_LAB_ALL-}" ]; then limit=3600; fi
    for suite in "${wanted[@]}"; do
        [ -n "$(column "$suite" 3)" ] ||
            { echo "run.sh: no suite $suite; there are ci, all, $(names | paste -sd' ' | sed 's/ /, /g')" >&2 && exit 2; }
    done

    if [ -z "${WEIGHTLIFT_LAB_BUILD-}" ]; then
        export WEIGHTLIFT_LAB_BUILD=build/release
        jobs/build.sh release tests,verbs,lab weightlift transport_conformance transport_abandoned_push
    fi
    mapfile -t machines < <(for suite in "${wanted[@]}"; do column "$suite" 2; done | awk '!seen[$0]++')
    for machine in "${machines[@]}"; do
        together=()
        for suite in "${wanted[@]}"; do
            if [ "$(column "$suite" 2)" = "$machine" ]; then together+=("$suite"); fi
        done
        read -ra options <<<"$machine"
        echo "== virtual machine ${options[*]}: ${together[*]}"
        tests/lab/softroce-vm.sh "${options[@]}" -t $limit \
            -e WEIGHTLIFT_LAB_BUILD -e WEIGHTLIFT_LAB_ALL -e WEIGHTLIFT_LAB_OUT \
            tests/lab/run.sh --inside "${together[@]}" || failed=$?
    done
    return "$failed"
}

# Read as a whole: the file may change while the suites run.
{ run_outside "$@"; exit; }
