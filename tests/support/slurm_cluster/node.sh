# The first process of a node, in namespaces of its own: NAME ADDRESS STATE CONTROLLERS.
# It prepares what a node has of its own, starts slurmd, and reaps the processes that lose their parents.
set -e
name=$1 address=$2 state=$3 controllers=$4

echo "$name" > /proc/sys/kernel/hostname
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$state/hosts" /etc/hosts
mount --bind "$state/etc" /etc/slurm
# UCX tells machines apart by this number: two nodes with the same one would use shared memory between them.
cat /proc/sys/kernel/random/uuid > "$state/boot-id-$name"
mount --bind "$state/boot-id-$name" /proc/sys/kernel/random/boot_id

until ip link show e0 > /dev/null 2>&1; do sleep 0.01; done
echo 1 > /proc/sys/net/ipv6/conf/e0/disable_ipv6 || true
ip address add "$address/24" dev e0
ip link set e0 up
ip link set lo up
# UCX lists the interfaces in /sys/class/net, which shows those of the namespace that mounted it.
# slurmd does not start without cgroups: the node's own groups where it has some, else those of the machine.
mount --rbind /sys/fs/cgroup "$state/cgroup"
mount -t sysfs sysfs /sys
if [ -n "$controllers" ]; then
    mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    for controller in $controllers; do
        mkdir "/sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller"
    done
    umount --recursive "$state/cgroup"
else
    mount --rbind "$state/cgroup" /sys/fs/cgroup
fi

slurmd -D -N "$name" -f "$state/etc/slurm.conf" &
# Never ends: the node stays when slurmd was killed. The last word distinguishes it from a user's.
sleep infinity 0 &
wait
