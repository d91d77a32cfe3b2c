#!/bin/bash
# Sets up and builds one kind of build folder: jobs/build.sh KIND PARTS [TARGET…]
#   KIND   release | debug | asan | tsan: builds in build/KIND; or deps: only sets up
#   PARTS  core, or a comma-separated list of tests, bench, lint, verbs (RDMA), cuda (GPUs), lab (a virtual machine
#          with software RDMA devices), browser, slurm: what must be there besides the core
# Where something is missing, installs it by apt-get, as root or by a sudo that asks no password;
# otherwise says in one sentence what is missing, and exits with status 2.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1 parts=$2
shift 2
unset MAKEFLAGS MFLAGS MAKELEVEL  # the build has its own number of jobs

# name, as cmake or this script finds it | Debian and Ubuntu | Fedora and EPEL | Spack
packages='
compiler|g++|gcc-c++|gcc
cmake|cmake|cmake|cmake
MPI|libopenmpi-dev openmpi-bin openssh-client|openmpi-devel|openmpi
HDF5|libhdf5-dev|hdf5-devel|hdf5
fmt|libfmt-dev|fmt-devel|fmt
CLI11|libcli11-dev|cli11-devel|cli11
nlohmann_json|nlohmann-json3-dev|json-devel|nlohmann-json
GTest|libgtest-dev|gtest-devel|googletest
benchmark|libbenchmark-dev|google-benchmark-devel|benchmark
h5py|python3-h5py python3-numpy python3-pandas|python3-h5py python3-pandas|py-h5py py-pandas
chromium|chromium fonts-dejavu-core|chromium|
slurm|slurm-wlm munge libpmix2 iproute2 python3-venv shellcheck|slurm-slurmctld slurm-slurmd munge pmix iproute python3 ShellCheck|slurm munge openpmix iproute2 python shellcheck
clang-format|clang-format-14|clang-tools-extra|llvm
clang-tidy|clang-tidy-16|clang-tools-extra|llvm
Verbs|libibverbs-dev libhwloc-dev ibverbs-providers|rdma-core-devel hwloc-devel|rdma-core hwloc
Cuda|nvidia-cuda-toolkit|cuda-toolkit|cuda
lab|qemu-system-x86 busybox-static kmod cpio xz-utils rdma-core iproute2 perftest python3|qemu-system-x86-core busybox kmod cpio xz rdma-core iproute iproute-tc perftest python3|qemu busybox kmod cpio xz rdma-core iproute2 perftest python'

# Column 2 (apt), 3 (dnf) or 4 (Spack) of the named packages.
column() {
    local column=$1 name
    shift
    for name in "$@"; do
        awk -F'|' -v name="$name" -v c="$column" '$1 == name { print $c }' <<<"$packages"
    done | sort -u | paste -sd' '
}

has_part() { [[ ",$parts," == *",$1,"* ]]; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

# Refreshes the package lists only where they do not do.
install() {
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300)
    local list
    read -ra list <<<"$(column 2 "$@")"
    echo "installing ${list[*]}" >&2
    as_root "${apt[@]}" install --no-install-recommends "${list[@]}" >/dev/null 2>&1 ||
        { as_root "${apt[@]}" update >&2 &&
            as_root "${apt[@]}" install --no-install-recommends "${list[@]}" >/dev/null; }
}

# Installs what is named, or says so and ends.
need() {
    if can_install && install "$@"; then return; fi
    printf 'missing: %s; install (apt) %s, or (dnf) %s, or (spack) %s, or point CMAKE_PREFIX_PATH at them\n' \
        "$*" "$(column 2 "$@")" "$(column 3 "$@")" "$(column 4 "$@")" >&2
    exit 2
}

# Whether a header is in a usual place: used only to name all at once where cmake is missing, too.
has_header() {
    local prefix
    for prefix in /usr /usr/local ${CMAKE_PREFIX_PATH:+${CMAKE_PREFIX_PATH//[:;]/ }}; do
        if [ -e "$prefix/include/$1" ]; then return; fi
    done
    return 1
}

recent_cmake() {
    local version
    version=$(cmake --version 2>/dev/null | awk 'NR == 1 { print $3 }')
    [ -n "$version" ] && printf '3.25\n%s\n' "$version" | sort -CV
}

tools=()
command -v "${CXX:-c++}" g++ >/dev/null || tools+=(compiler)
recent_cmake || tools+=(cmake)
if has_part lint; then
    command -v clang-format-14 clang-format >/dev/null || tools+=(clang-format)
    command -v clang-tidy-{16,17,18} >/dev/null || tools+=(clang-tidy)
fi
if has_part slurm; then
    (PATH=$PATH:/usr/sbin:/sbin
     for tool in slurmctld slurmd sbatch munged ip python3 shellcheck; do
         command -v $tool >/dev/null || exit 1
     done
     ldconfig -p | grep -q 'libpmix\.so') || tools+=(slurm)
fi
if has_part browser; then
    command -v chromium chromium-browser >/dev/null || tools+=(chromium)
fi
if has_part lab; then
    # Tools of administrators are not in everyone's PATH.
    (PATH=$PATH:/usr/sbin:/sbin
     for tool in qemu-system-x86_64 busybox modprobe cpio xz rdma ip tc ib_write_bw python3; do
         command -v $tool >/dev/null || exit 1
     done) || tools+=(lab)
fi
if [ ${#tools[@]} -gt 0 ] && ! can_install; then
    command -v mpicc >/dev/null || tools+=(MPI)
    command -v h5cc h5pcc >/dev/null || tools+=(HDF5)
    has_header fmt/format.h || tools+=(fmt)
    has_header CLI/CLI.hpp || tools+=(CLI11)
    has_header nlohmann/json.hpp || tools+=(nlohmann_json)
    ! has_part tests || has_header gtest/gtest.h || tools+=(GTest)
    ! has_part bench || has_header benchmark/benchmark.h || tools+=(benchmark)
    ! has_part cuda || command -v nvcc /usr/local/cuda/bin/nvcc >/dev/null || tools+=(Cuda)
    ! has_part verbs || { has_header infiniband/verbs.h && has_header hwloc.h; } || tools+=(Verbs)
fi
[ ${#tools[@]} = 0 ] || need "${tools[@]}"

options=()
sanitizer=(-DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-Og -g1")
case $kind in
release | deps) options+=(-DCMAKE_BUILD_TYPE=Release) ;;
debug) options+=(-DCMAKE_BUILD_TYPE=Debug) ;;
asan) options+=("${sanitizer[@]}" "-DWEIGHTLIFT_SANITIZE=address,undefined") ;;
tsan) options+=("${sanitizer[@]}" -DWEIGHTLIFT_SANITIZE=thread) ;;
*) echo "$0: unknown kind of build '$kind'" >&2 && exit 2 ;;
esac
# AUTO is given, too: after a failed attempt, ON would stay in the cache.
tests=AUTO bench=AUTO verbs=AUTO cuda=AUTO
if has_part tests; then tests=ON; fi
if has_part bench; then bench=ON; fi
if has_part verbs; then verbs=ON; fi
if has_part cuda; then cuda=ON; fi
# A sanitizer sees nothing of kernels, and where there is no GPU nothing of what starts them.
case $kind in asan | tsan) cuda=OFF ;; esac
options+=("-DWEIGHTLIFT_BUILD_TESTS=$tests" "-DWEIGHTLIFT_BUILD_BENCH=$bench"
    "-DWEIGHTLIFT_WITH_VERBS=$verbs" "-DWEIGHTLIFT_WITH_CUDA=$cuda")
# Kernels take half a minute for each architecture: one will do where none can run.
if ! nvidia-smi -L >/dev/null 2>&1; then options+=(-DWEIGHTLIFT_CUDA_ARCHITECTURES=90); fi
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
folder=build/${kind/deps/release}
log=$folder/configure.log
mkdir -p "$folder"
if [ ! -e "$folder/CMakeCache.txt" ]; then
    if command -v ninja >/dev/null; then options+=(-G Ninja); fi
    # Only the tests that read results files from Python need them, and are skipped without them.
    if has_part tests && ! python3 -c 'import h5py, numpy, pandas' 2>/dev/null && can_install; then
        install h5py || echo "h5py or pandas is not there: their tests will be skipped" >&2
    fi
    if has_part tests && ! has_header infiniband/verbs.h && can_install; then
        install Verbs || echo "libibverbs is not there: builds and tests without RDMA" >&2
    fi
fi

configure() {
    rm -f "$folder/missing.txt"
    cmake -S . -B "$folder" "${options[@]}" >"$log" 2>&1
}
if ! configure; then
    # cmake lists what it did not find; anything else is an error of its own.
    read -ra missing 2>/dev/null <"$folder/missing.txt" || true
    [ -n "${missing[*]-}" ] || { cat "$log" >&2 && exit 2; }
    need "${missing[@]}"
    configure || { cat "$log" >&2 && exit 2; }
fi
[ "$kind" != deps ] || exit 0

# One job a processor, as long as there are 1.5 GB of memory for each.
fit=$(($(jobs/available-memory.sh) / 1500))
jobs=$(nproc)
[ "$jobs" -le "$fit" ] || jobs=$((fit > 0 ? fit : 1))
cmake --build "$folder" -j "$jobs" ${1:+--target "$@"}
