# shellcheck shell=bash disable=SC2034
# To be sourced with the build folder as argument: sets the array mpirun to the launcher that cmake
# found, with what it needs for more ranks than processors and for running as root (in containers).
mpirun=("$(sed -n 's/^MPIEXEC_EXECUTABLE:[^=]*=//p' "$1/CMakeCache.txt")")
case $("${mpirun[0]}" --version 2>&1) in
*"Open MPI"* | *OpenRTE*)
    mpirun+=(--oversubscribe)
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    ;;
esac
