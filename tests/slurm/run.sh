#!/bin/bash
# Runs the job scripts of jobs/slurm for real: tests/slurm/run.sh [TEST…], as root.
# Slurm runs on this machine alone, from the distribution's packages, in name spaces of its own
# (processes, mounts, host name, network): it has its own /etc/hosts, its ports meet nobody's, and
# all of its processes end with this script, however that ends. Two slurmd play nodes n0 and n1.
# WEIGHTLIFT_SLURM_BUILD: a build folder to take the program from, instead of build/release.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "${1-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || { echo "$0: slurmd needs root" >&2 && exit 2; }
    folder=${WEIGHTLIFT_SLURM_BUILD:-build/release}
    if [ -z "${WEIGHTLIFT_SLURM_BUILD-}" ]; then jobs/build.sh release core,slurm weightlift; fi
    shellcheck -x jobs/slurm/*.sh jobs/mpirun/*.sh tests/slurm/run.sh
    # ReFrame comes from PyPI; where that is out of reach its test is skipped, and says so.
    reframe=build/reframe/bin/reframe
    [ -x "$reframe" ] || { python3 -m venv build/reframe && build/reframe/bin/pip install -q reframe-hpc; } ||
        echo "reframe-hpc cannot be installed: its test will be skipped" >&2
    if [ -x "$reframe" ]; then export WEIGHTLIFT_REFRAME=$PWD/$reframe; fi
    state=$(mktemp -d /tmp/weightlift-slurm-XXXXXX)
    trap 'rm -rf "$state"' EXIT
    export WEIGHTLIFT=$PWD/$folder/weightlift WEIGHTLIFT_SLURM_STATE=$state
    timeout --kill-after=10 600 unshare --mount --pid --fork --kill-child --mount-proc --uts --net \
        "$0" --inside "$@"
    exit
fi
shift

state=$WEIGHTLIFT_SLURM_STATE
chmod 755 "$state"
ip link set lo up
# Slurm resolves names only where there is an address besides 127.0.0.1.
address=10.77.0.1
ip address add "$address/32" dev lo
hostname controller
printf '%s\n' '127.0.0.1 localhost' "$address controller n0 n1" >"$state/hosts"
mount --bind "$state/hosts" /etc/hosts
export SLURM_CONF=$state/slurm.conf

# munged is particular about who owns the folders above its socket.
install -d -o munge -g munge -m 755 "$state/munge"
dd if=/dev/urandom of="$state/munge/key" bs=1024 count=1 status=none
chown munge:munge "$state/munge/key"
chmod 400 "$state/munge/key"
runuser -u munge -- munged --force --key-file="$state/munge/key" --socket="$state/munge/socket" \
    --pid-file="$state/munge/pid" --log-file="$state/munge/log" --seed-file="$state/munge/seed"

# A requeued job waits until the credentials of its first run have expired.
cat >"$SLURM_CONF" <<CONF
ClusterName=weightlift
SlurmctldHost=controller($address)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$state/munge/socket,cred_expire=5
CryptoType=crypto/munge
CredType=cred/munge
StateSaveLocation=$state/controller
SlurmdSpoolDir=$state/spool-%n
TmpFS=$state/tmp-%n
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd-%n.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
NodeName=n0 NodeAddr=$address Port=17000 CPUs=16
NodeName=n1 NodeAddr=$address Port=17001 CPUs=16
PartitionName=test Nodes=ALL Default=YES MaxTime=60 State=UP
CONF
mkdir "$state"/{controller,spool-n0,spool-n1,tmp-n0,tmp-n1}
slurmctld -i
for node in n0 n1; do
    # shellcheck disable=SC2016  # expands in there
    unshare --uts bash -c 'hostname "$1" && exec slurmd -N "$1"' - "$node"
done
for _ in {1..100}; do
    if [ "$(timeout 2 sinfo --noheader --states=idle --format=%D 2>/dev/null)" = 2 ]; then
        status=0
        python3 tests/slurm/jobs_test.py "$@" || status=$?
        [ "$status" = 0 ] || tail -n 15 "$state"/slurm*.log
        exit "$status"
    fi
    sleep 0.1
done
sinfo
tail -n 20 "$state"/*.log "$state/munge/log"
exit 1
