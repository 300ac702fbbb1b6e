# Makes a root of its own in the folder $1 and starts systemd there, as the first process of its namespaces.
# `host` below it is the test's; the agent's binary is $2.
set -e
place=$1 binary=$2
root=$place/root
mount --make-rprivate /
mkdir -p "$root"
mount -t tmpfs tmpfs "$root"
cd "$root"
mkdir -p usr etc/systemd/system etc/shunt run var/log var/lib var/tmp tmp proc sys dev root host old
for folder in bin sbin lib lib64; do
    ln -s "usr/$folder" "$folder"
done
mount --bind -o ro /usr usr
mount --bind "$place/host" host
touch host/shunt
mount --bind "$binary" host/shunt
for file in passwd group nsswitch.conf ld.so.cache; do
    cp "/etc/$file" etc/
done
echo 0123456789abcdef0123456789abcdef >etc/machine-id
ln -s /usr/lib/systemd/system/multi-user.target etc/systemd/system/default.target
# What looks after devices and people is not for a machine without either.
for unit in systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket \
    systemd-udev-trigger.service getty.target console-getty.service systemd-logind.service \
    systemd-networkd.service systemd-networkd.socket systemd-resolved.service systemd-timesyncd.service \
    dbus.service dbus.socket; do
    ln -s /dev/null "etc/systemd/system/$unit"
done
cp host/*.service etc/systemd/system/
mkdir etc/systemd/system/shunt.service.d
cp host/test.conf etc/systemd/system/shunt.service.d/
cp host/agent.env etc/shunt/
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
# As systemd does on a host, and not in a container.
mount -t bpf bpf sys/fs/bpf -o mode=700
mount -t tmpfs tmpfs dev
mkdir dev/pts dev/shm dev/mqueue dev/hugepages
mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mount -t tmpfs tmpfs run
pivot_root . old
umount -l /old
exec env -i container=shunt-test PATH=/usr/bin:/usr/sbin /usr/lib/systemd/systemd --system \
    --log-target=journal --show-status=0 </dev/null
