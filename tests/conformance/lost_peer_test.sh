#!/bin/sh
# lost_peer_test.sh PROGRAM TRANSPORT kill|stop|both MPIEXEC FLAGS...
# A source whose destination is lost must name it within the deadline, on whichever way it learns of
# it, and whoever is lost, nothing may stay behind in /dev/shm (but for Open MPI's own segments).
program=$1 transport=$2 how=$3
shift 3
list() { ls -A /dev/shm | grep -v -e '^vader_segment' -e '^sem\.' -e '^openmpi'; }
# Children of process $1 in a state that matches $2. From /proc: ps is not everywhere.
children() { sed 's/(.*)//' /proc/[0-9]*/stat 2>/dev/null | awk -v p="$1" -v s="$2" '$3 == p && $2 ~ s { print $1 }'; }
before=$(list)
log=$(mktemp)
timeout 60 "$@" --enable-recovery -n 2 "$program" "$transport" "$how" >"$log" 2>&1 &
launcher=$!
# A launcher may wait for a stopped process for ever: it has to go once the survivor has spoken.
while kill -0 $launcher 2>/dev/null; do
    if grep -q 'survivor: \|weightlift: ' "$log"; then
        for mpirun in $(children $launcher .); do children "$mpirun" T | xargs -r kill -KILL; done
    fi
    sleep 0.2
done
wait $launcher
status=$?
output=$(cat "$log")
rm -f "$log"
after=$(list)
failed=
[ "$status" -ne 124 ] || failed="did not end within 60 s"
[ "$before" = "$after" ] || failed="left in /dev/shm: $after"
if [ "$how" != both ]; then
    printf '%s\n' "$output" | grep -q 'survivor: .*rank 1 (host n1)\|weightlift: .*rank 1 (host n1)' ||
        failed="the survivor did not name rank 1"
fi
[ -z "$failed" ] || { printf '%s\n%s\n' "$output" "$failed"; exit 1; }
