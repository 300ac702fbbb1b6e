#!/bin/busybox sh
# The first process of the machine. The kernel's console is ttyS0; what the tests say goes to
# ttyS1, and at the end how they ended.
exec >/dev/ttyS1 2>&1
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
exec >/dev/ttyS1 2>&1

# The host's files, not to be written; what is written stays in memory.
for module in virtio_pci 9pnet_virtio 9p overlay; do
    /sbin/modprobe $module 2>/dev/null
done
share() {
    $b mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 $1 $2
}
share host /host
$b mount -t tmpfs tmpfs /rw
$b mkdir /rw/upper /rw/work
$b mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work root /root

# The kernel asks for its other modules with this root, not with that of the tests.
share modules /lib/modules
# iptables-legacy asks for these by itself, with a program that the host need not have.
for module in ip_tables ip6_tables; do
    /sbin/modprobe $module
done

$b ln -s /proc/self/fd /dev/fd
$b mkdir /dev/pts /dev/shm
$b mount -t devpts devpts /dev/pts
$b mount -t tmpfs shm /dev/shm
# Opening it loads the module, which makes no node before.
$b mkdir -p /dev/net
[ -e /dev/net/tun ] || $b mknod /dev/net/tun c 10 200
$b mount -t cgroup2 cgroup /sys/fs/cgroup
$b mount -t bpf bpf /sys/fs/bpf
for folder in proc sys dev; do
    $b mount -o rbind /$folder /root/$folder
done
$b mount -t tmpfs run /root/run
$b cp /job /root/run/job

echo "kernel $($b uname -r), up after $($b cut -d. -f1 /proc/uptime) s"
$b chroot /root /bin/sh /run/job
echo "job exit $?"
$b poweroff -f
