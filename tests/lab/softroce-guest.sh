#!/bin/bash
# Runs in the virtual machine of softroce-vm.sh, after softroce-init.sh: makes the RDMA devices, runs
# the command on node 0 and what `rsh` asks for on the others, and switches the machine off.
# $node is a kernel parameter, and with it an environment variable.
# shellcheck disable=SC2154
control=/run/softroce
# shellcheck disable=SC1091
source $control/settings # directory, modules, rails, nodes, peers, and the exported variables

# Rail i lies on the network 10.77.i.0/24 and fd77:i::/64, on which node k is number k+1 and the far
# end of a link number 2. A device MTU of 4200 has room for a RoCE MTU of 4096.
address() { # DEVICE RAIL NUMBER
    ip addr add "10.77.$2.$3/24" dev "$1"
    ip addr add "fd77:$2::$3/64" dev "$1" nodad
}

# Packets between two addresses of one machine cross the link only if they are routed before the
# local addresses are looked up, and then accepted in spite of a source address of our own.
route_over_link() { # RAIL
    local from to device table
    sysctl -qw net.ipv4.conf.{all,"roce$1","peer$1"}.{accept_local=1,rp_filter=0,arp_ignore=1} \
        net.ipv6.conf.{"roce$1","peer$1"}.keep_addr_on_down=1
    while read -r from to device; do
        table=$((100 + 2 * $1 + from))
        ip rule add pref 10 iif lo from "10.77.$1.$from" to "10.77.$1.$to" lookup $table
        ip -6 rule add pref 10 iif lo from "fd77:$1::$from" to "fd77:$1::$to" lookup $table
        echo "ip route replace 10.77.$1.$to dev $device$1 src 10.77.$1.$from table $table"
        echo "ip -6 route replace fd77:$1::$to dev $device$1 src fd77:$1::$from table $table"
    done <<<$'1 2 roce\n2 1 peer' >>/usr/local/bin/softroce-routes
}

make_devices() {
    local i
    for ((i = 0; i < rails; i++)); do
        if ((nodes > 1)); then
            ip link set "eth$((i + 1))" name "roce$i" mtu 4200
        else
            ip link add "roce$i" mtu 4200 type veth peer name "peer$i" mtu 4200
            ip link set "peer$i" up
        fi
        address "roce$i" "$i" "$((node + 1))"
        ip link set "roce$i" up
        rdma link add "rxe$i" type rxe netdev "roce$i"
        ((peers)) || continue
        address "peer$i" "$i" 2
        rdma link add "rxp$i" type rxe netdev "peer$i"
        route_over_link "$i"
    done
    ((peers)) || return 0
    for family in -4 -6; do
        ip $family rule add pref 1000 lookup local
        ip $family rule del pref 0 lookup local
    done
    # `ip link set … down` drops the routes: softroce-routes puts them back.
    chmod +x /usr/local/bin/softroce-routes
    bash /usr/local/bin/softroce-routes
}

set_up() {
    mount -t cgroup2 none /sys/fs/cgroup
    mkdir -p "$directory" /lib/modules
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=mmap work "$directory"
    mount --bind "$modules" /lib/modules
    ip link set lo up
    hostname "node$node"
    export HOME=/root USER=root SOFTROCE_GUEST=1
    ulimit -l unlimited
    ulimit -n 65536
    local k
    for ((k = 0; k < nodes; k++)); do echo "10.76.0.$((k + 1)) node$k"; done >>/etc/hosts
    if ((nodes > 1)); then
        ip addr add "10.76.0.$((node + 1))/24" dev eth0
        ip link set eth0 up
    else
        ip addr add 10.76.0.1/32 dev lo
    fi
    make_devices
    # rsh HOST COMMAND…: the command is left in the control directory, where its host looks for it.
    cat >/usr/local/bin/rsh <<'RSH'
#!/bin/bash
job=/run/softroce/job.$1.$$
shift
echo "$*" >"$job.new"
mv "$job.new" "$job.run"
while [ ! -s "$job.status" ]; do sleep 0.1; done
cat "$job.out"
exit "$(cat "$job.status")"
RSH
    chmod +x /usr/local/bin/rsh
    cd "$directory" || exit
    touch "$control/up.$node"
}

serve_jobs() {
    local job
    while true; do
        for job in "$control/job.node$node".*.run; do
            [ -e "$job" ] || continue
            job=${job%.run}
            mv "$job.run" "$job.sh"
            (
                bash "$job.sh" >"$job.out" 2>&1
                echo $? >"$job.status"
            ) &
        done
        sleep 0.1
    done
}

all_are_up() {
    local up=("$control"/up.*)
    [ ${#up[@]} = "$nodes" ]
}

set_up >/dev/console 2>&1
((node == 0)) || serve_jobs
until all_are_up; do sleep 0.2; done
port=$(grep -lx softroce /sys/class/virtio-ports/*/name | cut -d/ -f5)
{
    bash $control/command 2>&1
    echo $? >$control/status
} </dev/null | cat >"/dev/$port"
sync
echo o >/proc/sysrq-trigger
sleep 60
