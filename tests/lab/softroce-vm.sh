#!/bin/bash
# softroce-vm.sh [options] [--] COMMAND [ARG…]
#
# Runs COMMAND as root in a virtual machine whose kernel has Soft-RoCE, an RDMA device in software
# (rdma_rxe): libibverbs, queue pairs and packets are real there, rates are not. The machine is
# emulated, needs no privileges and no /dev/kvm. It sees this machine's root file system, with changes
# that are thrown away, but for the working directory of -d, which is shared.
#
#   -d DIR    shared and writable, and the working directory    (default: $PWD)
#   -c N      virtual processors                                (default: as many as here, at most 4)
#   -m MIB    memory                                            (default: 4096)
#   -t SEC    kill the machine after SEC seconds                (default: 600)
#   -r N      rails: devices rxe0 … rxe(N-1), each over a network device roce<i>, 10.77.i.1 and
#             fd77:i::1                                         (default: 2)
#   -p        also devices rxp0 … at the far ends of the rails' links, over peer<i>, 10.77.i.2 and
#             fd77:i::2: packets between rxe<i> and rxp<i> really cross. After `ip link set … down`
#             and up, softroce-routes puts their routes back
#   -n N      machines, as hosts node0 …: COMMAND runs on node0. Start ranks on the others with
#             mpirun --host node0:1,node1:1 --mca plm_rsh_agent rsh --mca btl_tcp_if_include eth0
#             --mca oob_tcp_if_include eth0                     (default: 1)
#   -e VAR    hand the environment variable VAR on; may be repeated
#
# Exit status: COMMAND's; 124 at the time limit; 125 if there is no machine, with the reason.
#
# WEIGHTLIFT_LAB_CACHE: where the kernel is kept (default: /var/cache/weightlift-lab, or in
# ~/.cache). It is Debian's, fetched by apt-get; WEIGHTLIFT_LAB_KERNEL names a package file instead.
# WEIGHTLIFT_LAB_ACCEL, WEIGHTLIFT_LAB_CPU: qemu's -accel and -cpu. A processor without AVX is
# emulated three times faster than one with it ("max,la57=off").
set -euo pipefail
here=$(realpath "$(dirname "$0")")
PATH=$PATH:/usr/sbin:/sbin

fail() {
    echo "softroce-vm.sh: $*" >&2
    exit 125
}

accel=${WEIGHTLIFT_LAB_ACCEL:-tcg,thread=multi}
cpu=${WEIGHTLIFT_LAB_CPU:-Nehalem}
directory=$PWD cpus=$(($(nproc) < 4 ? $(nproc) : 4)) memory=4096 limit=600
rails=2 nodes=1 peers=0 variables=(PATH)
while getopts d:c:m:t:r:n:e:p option; do
    case $option in
    d) directory=$(realpath "$OPTARG") ;;
    c) cpus=$OPTARG ;;
    m) memory=$OPTARG ;;
    t) limit=$OPTARG ;;
    r) rails=$OPTARG ;;
    n) nodes=$OPTARG ;;
    p) peers=1 ;;
    e) variables+=("$OPTARG") ;;
    *) fail "usage: softroce-vm.sh [-d DIR] [-c N] [-m MIB] [-t SEC] [-r N] [-p] [-n N] [-e VAR] COMMAND…" ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || fail "no command is given"
[ "$peers" = 0 ] || [ "$nodes" = 1 ] || fail "-p is for one machine, and there are $nodes"
for program in qemu-system-x86_64 busybox modprobe depmod cpio xz rdma ip; do
    command -v $program >/dev/null || fail "there is no $program (jobs/build.sh deps lab installs it)"
done

# ---- the kernel and its modules, fetched once ----------------------------------------------------

choose_cache() {
    local default=/var/cache/weightlift-lab
    mkdir -p $default 2>/dev/null && [ -w $default ] || default=${XDG_CACHE_HOME:-$HOME/.cache}/weightlift-lab
    cache=${WEIGHTLIFT_LAB_CACHE:-$default}
    mkdir -p "$cache" || fail "$cache cannot be made (WEIGHTLIFT_LAB_CACHE names another folder)"
}

# linux-image-amd64 depends on the package of the newest kernel.
fetch_kernel_package() { # FOLDER
    local package apt=(apt-get -qq -o APT::Sandbox::User=root)
    command -v apt-cache >/dev/null || fail "only Debian's apt-get fetches a kernel (or WEIGHTLIFT_LAB_KERNEL names a package file)"
    for attempt in as-it-is updated; do
        [ $attempt = as-it-is ] || "${apt[@]}" update >&2 || true
        package=$(apt-cache depends linux-image-amd64 2>/dev/null |
            awk '/Depends: linux-image-[0-9]/ && !n++ { print $2 }')
        if [ -n "$package" ] && (cd "$1" && "${apt[@]}" download "$package" >&2); then return; fi
    done
    fail "apt-get cannot download ${package:-linux-image-amd64}"
}

fetch_kernel() {
    local new=$cache/new.$$ package offset
    mkdir -p "$new"
    package=${WEIGHTLIFT_LAB_KERNEL-}
    if [ -z "$package" ]; then
        fetch_kernel_package "$new"
        package=$(echo "$new"/*.deb)
    fi
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$new" --wildcards './boot/vmlinuz*' \
        './lib/modules/*/modules.*' \
        './lib/modules/*/kernel/'{arch,crypto,lib,fs/{9p,configfs,fscache,netfs,overlayfs},net}'/*' \
        './lib/modules/*/kernel/drivers/'{'infiniband/core/*','infiniband/sw/*','virtio/*','char/*','net/*.ko'}
    depmod -b "$new" "$(basename "$new"/lib/modules/*)"
    # An uncompressed kernel is started by qemu itself: no firmware, no decompression by emulation.
    # What follows the compressed part in the file makes xz complain at the end.
    offset=$(LC_ALL=C grep -aboP '\xFD7zXZ\x00' "$new"/boot/vmlinuz* | awk -F: '!n++ { print $1 }')
    [ -n "$offset" ] || fail "the kernel of $package is not compressed by xz"
    tail -c +$((offset + 1)) "$new"/boot/vmlinuz* | xz -dc --single-stream >"$new/vmlinux" 2>/dev/null || true
    [ -s "$new/vmlinux" ] || fail "the kernel of $package cannot be unpacked"
    rm -rf "$new"/*.deb "${new:?}/boot"
    # Another run may have been faster.
    mv -T "$new" "$cache/kernel" 2>/dev/null || rm -rf "$new"
}

# With the modules in the order of their dependencies.
build_initrd() { # FILE
    local root=$control/initramfs version module
    mkdir -p "$root"/{bin,modules,proc,sys,dev,lower,changes,root}
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$here/softroce-init.sh" "$root/init"
    chmod +x "$root/init"
    version=$(basename "$cache"/kernel/lib/modules/*)
    for module in virtio_pci 9pnet_virtio 9p overlay virtio_console virtio_net veth \
        sch_netem rdma_rxe ib_uverbs rdma_ucm; do
        modprobe -d "$cache/kernel" -S "$version" --show-depends $module ||
            fail "the kernel in $cache has no module $module: remove the folder"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r module; do
        cp "$module" "$root/modules/"
        basename "$module" >>"$root/modules/order"
    done
    (cd "$root" && find . | cpio -o -H newc --quiet) >"$1"
    rm -rf "$root"
}

choose_cache
[ -s "$cache/kernel/vmlinux" ] || fetch_kernel

# ---- what the machines read and write, in a folder shared with them ------------------------------

control=$(mktemp -d)
running=()
stop() {
    [ ${#running[@]} = 0 ] || kill "${running[@]}" 2>/dev/null || true
    running=()
}
trap 'stop; wait; rm -rf "$control"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
build_initrd "$control/initrd"
cp "$here/softroce-guest.sh" "$control/guest.sh"
{
    echo "directory=$(printf %q "$directory") modules=$(printf %q "$cache/kernel/lib/modules")"
    echo "rails=$rails nodes=$nodes peers=$peers"
    for name in "${variables[@]}"; do
        [ -z "${!name+x}" ] || echo "export $name=$(printf %q "${!name}")"
    done
} >"$control/settings"
printf '%q ' exec "$@" >"$control/command"

# ---- the machines --------------------------------------------------------------------------------

share() { # TAG FOLDER [,OPTIONS]
    options+=(-fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap${3-}"
        -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

# Becomes qemu. With several machines, network card 0 is for MPI and card i+1 is rail i, all on
# multicast groups of the loopback device.
machine() { # NODE [QEMU OPTION…]
    local k=$1 i options=()
    shift
    for ((i = 0; i <= rails && nodes > 1; i++)); do
        options+=(-netdev "socket,id=n$i,mcast=230.77.0.1:$((20000 + $$ % 20000 + i)),localaddr=127.0.0.1"
            -device "virtio-net-pci,netdev=n$i,host_mtu=4200,mac=52:54:00:77:0$i:0$k,romfile=")
    done
    share root / ,readonly=on
    share work "$directory"
    share control "$control"
    exec timeout --foreground -k 5 "$limit" qemu-system-x86_64 \
        -accel "$accel" -cpu "$cpu" -smp "$cpus" -m "$memory" \
        -nodefaults -display none -no-reboot -kernel "$cache/kernel/vmlinux" -initrd "$control/initrd" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable net.ifnames=0 node=$k" \
        -name "softroce$k,debug-threads=on" -pidfile "$control/pid.$k" \
        -serial "file:$control/console.$k" "${options[@]}" "$@" </dev/null
}

all_are_up() { [ "$(find "$control" -name 'up.*' | wc -l)" = "$nodes" ]; }

# A kernel for several processors hangs early in one emulated boot of ten.
end_hung_boot() {
    local waited
    for ((waited = 0; waited < ${WEIGHTLIFT_LAB_BOOT_LIMIT:-45}; waited++)); do
        sleep 1
        ! all_are_up || return 0
    done
    touch "$control/hung"
    cat "$control"/pid.* | xargs -r kill
}

# Ranks that poll must not keep qemu's own threads from delivering packets: three times faster.
yield_processors() {
    local task pid
    sleep 2
    for pid in "$control"/pid.*; do
        for task in "/proc/$(<"$pid")"/task/*; do
            [[ $(<"$task/comm") != CPU* ]] || chrt -i -p 0 "${task##*/}"
        done
    done
}

for attempt in 1 2 3 4; do
    rm -f "$control"/{up.*,hung,pid.*}
    machine 0 -device virtio-serial-pci -add-fd fd=3,set=1 \
        -chardev file,id=out,path=/dev/fdset/1,append=on \
        -device virtserialport,chardev=out,name=softroce 3>&1 >&2 &
    first=$!
    running=("$first")
    for ((k = 1; k < nodes; k++)); do
        machine $k >&2 &
        running+=($!)
    done
    end_hung_boot >/dev/null 2>&1 &
    running+=($!)
    if ((nodes > 1)); then
        yield_processors &
        running+=($!)
    fi
    code=0
    wait "$first" || code=$?
    stop
    wait
    [ -e "$control/hung" ] || break
    echo "softroce-vm.sh: boot $attempt hung" >&2
done

if [ "$code" = 124 ]; then
    echo "softroce-vm.sh: no end after $limit s" >&2
    tail -n 20 "$control/console.0" >&2
    exit 124
fi
if [ ! -s "$control/status" ]; then
    tail -n 40 "$control/console.0" >&2 || true
    fail "the machine failed; the end of its console is above"
fi
exit "$(<"$control/status")"
