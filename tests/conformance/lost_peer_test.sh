#!/bin/sh
# lost_peer_test.sh PROGRAM TRANSPORT kill|stop|both MPIEXEC FLAGS...
# A source whose destination is lost must name it within the deadline, on whichever way it learns of
# it, and whoever is lost, nothing may stay behind in /dev/shm (but for Open MPI's own segments).
program=$1 transport=$2 how=$3
shift 3
list() { ls -A /dev/shm | grep -v -e '^vader_segment' -e '^sem\.' -e '^openmpi'; }
before=$(list)
output=$(timeout 60 "$@" --enable-recovery -n 2 "$program" "$transport" "$how" 2>&1)
status=$?
after=$(list)
failed=
[ "$status" -ne 124 ] || failed="did not end within 60 s"
[ "$before" = "$after" ] || failed="left in /dev/shm: $after"
if [ "$how" != both ]; then
    printf '%s\n' "$output" | grep -q 'survivor: .*rank 1 (host n1)\|weightlift: .*rank 1 (host n1)' ||
        failed="the survivor did not name rank 1"
fi
[ -z "$failed" ] || { printf '%s\n%s\n' "$output" "$failed"; exit 1; }
