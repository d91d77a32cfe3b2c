#!/bin/bash
# Prints how many MB (10^6 bytes) this machine, or the cgroup that limits us, can still give.
set -euo pipefail
available=$(awk '/^MemAvailable/ { print int($2 * 1024 / 1000000) }' /proc/meminfo)
limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
if [ "$limit" != max ]; then
    left=$(((limit - $(cat /sys/fs/cgroup/memory.current)) / 1000000))
    available=$((left < available ? left : available))
fi
echo "$available"
