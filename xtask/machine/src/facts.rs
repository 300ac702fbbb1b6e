//! Facts about this machine, found by trial.

use std::{
    fs, io,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{statvfs::statvfs, utsname::uname},
};

use crate::bpf;

/// A file of every network namespace, unless the kernel was started without IPv6.
const IPV6: &str = "/proc/sys/net/ipv6/conf/all/disable_ipv6";

/// The findings about a machine. `Err` has the error number of the step that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The kernel's release, such as `6.1.0-40-amd64`.
    pub release: String,
    /// The result of making a network namespace.
    pub namespace: Result<(), i32>,
    /// The result of naming it, which is a mount.
    pub mount: Result<(), i32>,
    /// The result of writing its settings below `/proc/sys`.
    pub settings: Result<(), i32>,
    /// True if devices that connect two of them can be made; `None` without the `ip` command.
    pub veth: Option<bool>,
    /// True if there is IPv6.
    pub ipv6: bool,
    /// The result of loading a BPF program.
    pub program: Result<(), i32>,
    /// True if programs may call `bpf_loop`.
    pub bpf_loop: bool,
    /// Free memory and disk.
    pub room: Room,
}

/// Memory and disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes of memory and swap that are free, within the limit of this process's cgroup.
    pub memory: u64,
    /// Free bytes where the build goes.
    pub disk: u64,
}

/// The findings of a thread in a namespace of its own.
struct Inside {
    namespace: Result<(), i32>,
    mount: Result<(), i32>,
    settings: Result<(), i32>,
    veth: Option<bool>,
    ipv6: bool,
}

impl Facts {
    /// Tries what this machine can do. `output` is where the build goes.
    pub fn gather(output: &Path) -> Self {
        // A thread may leave the namespaces of its process, and they go with it.
        let inside = thread::spawn(look_inside).join();
        let Inside {
            namespace,
            mount,
            settings,
            veth,
            ipv6,
        } = inside.unwrap_or(Inside {
            namespace: Err(libc::EAGAIN),
            mount: Ok(()),
            settings: Ok(()),
            veth: None,
            ipv6: true,
        });
        let program = number(bpf::load_nothing());
        Self {
            release: uname()
                .map(|name| name.release().to_string_lossy().into_owned())
                .unwrap_or_default(),
            namespace,
            mount,
            settings,
            veth,
            ipv6: ipv6 && Path::new(IPV6).exists(),
            bpf_loop: program.is_err() || bpf::has_loop(),
            program,
            room: Room::of(output),
        }
    }
}

fn look_inside() -> Inside {
    let mut inside = Inside {
        namespace: unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error as i32),
        mount: Ok(()),
        settings: Ok(()),
        veth: None,
        ipv6: true,
    };
    if inside.namespace.is_err() {
        return inside;
    }
    inside.ipv6 = Path::new(IPV6).exists();
    let forward = "/proc/sys/net/ipv4/ip_forward";
    inside.settings = number(fs::write(forward, "1"));
    inside.veth = make_veth();
    inside.mount = bind().map_err(|error| error as i32);
    inside
}

/// Makes a pair of devices in the namespace of this thread.
fn make_veth() -> Option<bool> {
    Command::new("ip")
        .args([
            "link", "add", "shunt0", "type", "veth", "peer", "name", "shunt1",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()
        .map(|status| status.success())
}

/// Mounts a namespace as `ip netns` does, where no other process sees it.
fn bind() -> nix::Result<()> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    let namespace = "/proc/thread-self/ns/net";
    // Any file will do; this one is on every machine, and stays as it is.
    mount(Some(namespace), "/etc/passwd", NONE, MsFlags::MS_BIND, NONE)
}

fn number(result: io::Result<()>) -> Result<(), i32> {
    result.map_err(|error| error.raw_os_error().unwrap_or_default())
}

impl Room {
    fn of(output: &Path) -> Self {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
        let used = fs::read_to_string("/sys/fs/cgroup/memory.current").unwrap_or_default();
        // The folder need not be there yet.
        let found = output.ancestors().find_map(|folder| statvfs(folder).ok());
        Self {
            memory: memory(&meminfo, &limit, &used),
            disk: found.map_or(u64::MAX, |system| {
                system.blocks_available() * system.fragment_size()
            }),
        }
    }
}

/// Returns the free bytes by `/proc/meminfo`, and by the limit and use of a cgroup. A value that cannot be
/// read is no limit.
fn memory(meminfo: &str, limit: &str, used: &str) -> u64 {
    let kilobytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let free = kilobytes("MemAvailable:").map_or(u64::MAX, |available| {
        (available + kilobytes("SwapFree:").unwrap_or(0)) * 1024
    });
    let below_limit = limit
        .trim()
        .parse::<u64>()
        .ok()
        .zip(used.trim().parse::<u64>().ok())
        .map_or(u64::MAX, |(limit, used)| limit.saturating_sub(used));
    free.min(below_limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_machine_and_cgroup_have_left() {
        let meminfo = "MemTotal: 8000 kB\nMemAvailable:    2000 kB\nSwapFree:  500 kB\n";
        let cases = [
            (meminfo, "max\n", "100\n", 2500 * 1024),
            (meminfo, "1000000\n", "400000\n", 600_000),
            (meminfo, "1000\n", "2000\n", 0),
            (meminfo, "", "", 2500 * 1024),
            ("", "", "", u64::MAX),
        ];
        for (meminfo, limit, used, expected) in cases {
            assert_eq!(memory(meminfo, limit, used), expected, "{limit:?}");
        }
    }
}
