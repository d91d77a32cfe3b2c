#!/bin/busybox sh
# shellcheck shell=dash
# First process of the virtual machine of softroce-vm.sh: loads the kernel modules, makes the host's
# root file system the root, under an overlay in memory that is thrown away, and goes on in it.
b=/bin/busybox
$b mount -t proc none /proc
$b mount -t sysfs none /sys
$b mount -t devtmpfs none /dev
while read -r module; do
    $b insmod "/modules/$module" || echo "insmod $module failed"
done </modules/order
p9=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $p9,ro,cache=loose root /lower
$b mount -t tmpfs -o size=90% none /changes
$b mkdir /changes/upper /changes/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/changes/upper,workdir=/changes/work none /root
for fs in proc sys dev; do $b mount --move /$fs /root/$fs; done
$b mkdir -p /root/dev/shm /root/dev/pts /root/run/softroce
$b mount -t tmpfs -o size=90% none /root/dev/shm
$b mount -t devpts none /root/dev/pts
$b mount -t 9p -o $p9,cache=none control /root/run/softroce
exec $b switch_root /root /bin/bash /run/softroce/guest.sh
