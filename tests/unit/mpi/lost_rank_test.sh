#!/bin/sh
# lost_rank_test.sh PROGRAM kill|stop VICTIM MPIEXEC FLAGS...
# Every survivor of 4 ranks must name the victim.
program=$1 how=$2 victim=$3
shift 3
# Otherwise mpirun ends all when one is killed. With it, its exit status is always 0.
[ "$how" = kill ] && set -- "$@" --enable-recovery && expected=0 || expected=5
output=$(timeout 60 "$@" -n 4 "$program" "$how" "$victim" 2>&1)
status=$?
named=$(printf '%s\n' "$output" |
    grep -c "survivor: no answer from rank $victim (host n1) in meet within 0.5 s")
if [ "$named" -ne 3 ] || [ "$status" -ne "$expected" ]; then
    printf '%s\n' "$output"
    echo "$named of 3 survivors named rank $victim; exit status $status, not $expected"
    exit 1
fi
