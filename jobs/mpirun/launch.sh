# shellcheck shell=bash
# To be sourced by the scripts of this folder. Sets
#   weightlift  path of the program (WEIGHTLIFT, else build/release/weightlift, else of PATH)
#   mpirun      the launcher with its flags; MPIRUN adds the site's (--hostfile, --mca …)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
weightlift=${WEIGHTLIFT:-$PWD/build/release/weightlift}
[ -x "$weightlift" ] || weightlift=$(command -v weightlift) || {
    echo "no weightlift: run 'make release' first, or set WEIGHTLIFT" >&2
    exit 2
}
mpirun=(mpirun)
case $(mpirun --version 2>&1) in
*"Open MPI"* | *OpenRTE*)
    # Cores of one NUMA node for each rank, as far as they go; weightlift then takes the NICs nearest
    # to that memory by itself (--nic overrides).
    if [ "${ranks:?}" -le "$(nproc)" ]; then
        mpirun+=(--map-by numa --bind-to core)
    else
        mpirun+=(--oversubscribe --bind-to none)
    fi
    ;;
esac
read -ra site_flags <<<"${MPIRUN-}"
mpirun+=("${site_flags[@]}")
mkdir -p results
# shellcheck disable=SC2034
stamp=$(date -u +%Y%m%dT%H%M%SZ)
