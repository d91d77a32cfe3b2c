# shellcheck shell=bash
# To be sourced by the job scripts of this folder, which sbatch has copied elsewhere: they are
# submitted from the project's root. Sets
#   weightlift  path of the program (WEIGHTLIFT, else build/release/weightlift, else of PATH)
#   srun        the launcher with what ties a task to its GPU, NIC and memory, where there are any
#   suffix      of results files: nothing at first, -r1 after the first requeue
# WEIGHTLIFT_SRUN adds flags of the site, WEIGHTLIFT_MPI overrides the kind of MPI.
set -euo pipefail

weightlift=${WEIGHTLIFT:-$PWD/build/release/weightlift}
[ -x "$weightlift" ] || weightlift=$(command -v weightlift) || {
    echo "no weightlift: submit from the project's root after 'make release', or set WEIGHTLIFT" >&2
    exit 2
}

# What the program's MPI can use differs between sites: pmix where Slurm has it, else pmi2.
choose_mpi() {
    local known kind
    known=$(srun --mpi=list 2>&1)
    for kind in pmix pmi2; do
        if grep -qw "$kind" <<<"$known"; then
            echo "$kind"
            return
        fi
    done
    echo "srun has neither pmix nor pmi2: $known" >&2
    return 2
}

# A killed rank ends the job; without this srun leaves the others waiting for it.
srun=(srun "--mpi=${WEIGHTLIFT_MPI:-$(choose_mpi)}" --kill-on-bad-exit=1)
# Cores of one NUMA node and memory beside them, where a plugin can bind; weightlift then takes the
# NICs nearest to that memory by itself (--nic overrides).
case $(scontrol show config | awk '$1 == "TaskPlugin" { print $3 }') in
*affinity* | *cgroup*) srun+=(--cpu-bind=cores --mem-bind=local) ;;
esac
# The GPUs nearest to those cores, where the job has some.
if [ -n "${SLURM_JOB_GPUS-}${SLURM_GPUS_ON_NODE-}" ]; then srun+=(--gpu-bind=closest); fi
read -ra site_flags <<<"${WEIGHTLIFT_SRUN-}"
srun+=("${site_flags[@]}")

# A requeued job has the same id, and results are never written over.
# shellcheck disable=SC2034
suffix=${SLURM_RESTART_COUNT:+-r$SLURM_RESTART_COUNT}
mkdir -p results
