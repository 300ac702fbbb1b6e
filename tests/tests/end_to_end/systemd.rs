//! The units that are shipped, under a real systemd: the first process of namespaces of its own, in the
//! network namespace of the sandbox's node.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use shunt_skip::skip;
use shunt_tests::{Cgroup, Transport, wait_until};
use tempfile::TempDir;

use crate::{
    service::Service,
    world::{Unattended, World, binary, resync_with},
};

const BOOT: &str = include_str!("systemd/boot.sh");

const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/systemd");

/// Time that systemd may take to do something.
const SOON: Duration = Duration::from_mins(1);

/// Returns whether there is no systemd of the kind that the test starts; skips the test then.
fn is_missing() -> bool {
    let is_there = Path::new("/usr/lib/systemd/systemd").exists()
        && fs::symlink_metadata("/bin").is_ok_and(|bin| bin.is_symlink());
    if !is_there {
        skip("needs systemd below /usr (Debian's package `systemd`)");
    }
    !is_there
}

/// A systemd that runs until this is dropped.
struct Machine {
    /// `unshare`, whose child is the first process.
    outer: Child,
    /// The process id of systemd.
    init: String,
    cgroup: Cgroup,
    folder: TempDir,
}

impl Machine {
    /// Starts it in the network namespace of the node, with these files below `/host`.
    fn start(world: &Unattended, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("host")).unwrap();
        let cgroup = Cgroup::new().unwrap();
        let own = [
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--uts",
            "--ipc",
            "--cgroup",
        ];
        let place = folder.path().to_str().unwrap();
        let binary = binary();
        let boot = ["bash", "-c", BOOT, "boot", place, binary.to_str().unwrap()];
        let node = world.sandbox.node();
        for (name, content) in files {
            fs::write(folder.path().join("host").join(name), content).unwrap();
        }
        let outer = cgroup
            .spawn(node, Path::new("unshare"), &[&own[..], &boot].concat())
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let init = wait_until("systemd is there", SOON, || {
            let child = fs::read_to_string(&children).ok()?.trim().to_owned();
            let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
            (name.trim() == "systemd").then_some(child)
        });
        let machine = Self {
            init: init.unwrap(),
            outer,
            cgroup,
            folder,
        };
        wait_until("systemd has started", SOON, || {
            let (_, said) = machine.run(&["systemctl", "is-system-running"]);
            matches!(said.trim(), "running" | "degraded").then_some(())
        })
        .unwrap();
        machine
    }

    /// Runs a command there. Returns whether it succeeded, and its output.
    fn run(&self, command: &[&str]) -> (bool, String) {
        let ran = Command::new("nsenter")
            .args([
                "-t", &self.init, "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w",
            ])
            .args(["env", "-i", "PATH=/usr/bin:/usr/sbin"])
            .args(command)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        (
            ran.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }

    /// As [`Self::run`], of what has to succeed.
    fn done(&self, command: &[&str]) -> String {
        let (is_done, said) = self.run(command);
        assert!(is_done, "{command:?}: {said}\n{}", self.log());
        said
    }

    /// Returns a property of the unit, by systemd.
    fn shown(&self, property: &str) -> String {
        let property = format!("--property={property}");
        let said = self.done(&["systemctl", "show", "shunt", "--value", &property]);
        said.trim().to_owned()
    }

    /// Returns the unit's log.
    fn log(&self) -> String {
        self.run(&["journalctl", "--no-pager", "-o", "cat", "-u", "shunt"])
            .1
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.folder.path().join("host").join(name), content).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its child goes with it, and all processes with that.
        drop(self.outer.kill());
        drop(self.outer.wait());
        let inner = wait_until("its cgroups are empty", SOON, || {
            remove_below(self.cgroup.path()).then_some(())
        });
        if let Err(error) = inner {
            eprintln!("left behind: {}: {error}", self.cgroup.path().display());
        }
    }
}

/// Removes the cgroups below this one. Returns whether none is left.
fn remove_below(cgroup: &Path) -> bool {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    let mut folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.all(|folder| remove_below(&folder.path()) && fs::remove_dir(folder.path()).is_ok())
}

#[test]
fn the_unit_serves_reloads_is_watched_and_may_do_little() {
    if is_missing() {
        return;
    }
    let Some(world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let target = service.cluster_ip();
    let world = world.stopped();
    let unit = fs::read_to_string(format!("{UNITS}/shunt.service")).unwrap();
    let events = resync_with(&[service.json()]) + "\n";
    let machine = Machine::start(
        &world,
        &[
            ("shunt.service", &unit),
            (
                "test.conf",
                "[Service]\nExecStart=\nExecStart=/host/shunt agent $SHUNT_FLAGS\nWatchdogSec=3\n",
            ),
            ("agent.env", "SHUNT_FLAGS=\"--config /host/agent.toml\"\n"),
            (
                "agent.toml",
                "events = \"/host/events.jsonl\"\nmax-removal = 100\n",
            ),
            ("events.jsonl", &events),
        ],
    );
    let ask = |what: &str| {
        let pod = world.sandbox.pod("pod-c").namespace();
        let served = wait_until(what, SOON, || pod.enter(|| target.ask(100)).ok());
        served.unwrap_or_else(|error| panic!("{error}\n{}", machine.log()));
    };
    machine.done(&["systemctl", "start", "shunt"]);
    assert_eq!(machine.shown("ActiveState"), "active");
    ask("it serves");

    // CAP_NET_ADMIN, CAP_PERFMON and CAP_BPF.
    let status = machine.done(&["cat", &format!("/proc/{}/status", machine.shown("MainPID"))]);
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert!(
            status.contains(&format!("{set}:\t000000c000001000\n")),
            "{status}"
        );
    }
    assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
    assert!(status.contains("Seccomp:\t2\n"), "{status}");

    // A setting that only a restart reads may be wrong meanwhile.
    machine.write("agent.toml", "max-removals = 50\n");
    machine.done(&["systemctl", "reload", "shunt"]);
    wait_until("the agent logs the signal", SOON, || {
        machine.log().contains("SIGHUP: ").then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", machine.log()));
    assert_eq!(machine.shown("ActiveState"), "active");
    machine.write("agent.toml", "events = \"/host/events.jsonl\"\n");

    // An agent that hangs is started anew, and packets are translated meanwhile.
    assert_eq!(machine.shown("NRestarts"), "0");
    machine.done(&["systemctl", "kill", "--signal=STOP", "shunt"]);
    ask("it serves while the agent hangs");
    wait_until("it is started anew", SOON, || {
        let is_new = machine.shown("NRestarts") == "1";
        (is_new && machine.shown("ActiveState") == "active").then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", machine.log()));
    ask("it serves again");

    machine.done(&["systemctl", "stop", "shunt"]);
    assert_eq!(machine.shown("Result"), "success");
    ask("translation outlives the unit");
    let pins = fs::metadata(format!("/proc/{}/root/sys/fs/bpf/shunt", machine.init));
    assert!(
        pins.is_ok_and(|pins| pins.ino() > 0),
        "what is pinned stays"
    );
}

#[test]
fn the_unit_waits_for_a_slow_start_and_outlives_failures_at_boot() {
    if is_missing() {
        return;
    }
    let Some(world) = World::new() else {
        return;
    };
    let world = world.stopped();
    let unit = fs::read_to_string(format!("{UNITS}/shunt.service")).unwrap();
    let machine = Machine::start(
        &world,
        &[
            ("shunt.service", &unit),
            (
                "test.conf",
                // The verifier alone takes longer than that; and more failures than five in ten seconds.
                "[Service]\nExecStart=\nExecStart=/host/shunt agent $SHUNT_FLAGS\nTimeoutStartSec=1\n\
                 RestartSec=100ms\nRestartSteps=0\n",
            ),
            ("agent.env", "SHUNT_FLAGS=\"--config /host/agent.toml\"\n"),
            ("agent.toml", "no-such-setting = 1\n"),
            ("events.jsonl", &(resync_with(&[]) + "\n")),
        ],
    );
    machine.run(&["systemctl", "start", "shunt"]);
    let restarts = || machine.shown("NRestarts").parse::<u32>().unwrap();
    wait_until("it fails more often than the default allows", SOON, || {
        (restarts() > 6).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", machine.log()));
    // What writes the file comes later.
    machine.write("agent.toml", "events = \"/host/events.jsonl\"\n");
    wait_until("it runs", SOON, || {
        (machine.shown("ActiveState") == "active").then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", machine.log()));
}
