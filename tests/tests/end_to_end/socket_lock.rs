//! Locks that other processes hold where an agent wants to listen.

use std::{
    fs::{self, File, Permissions},
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use shunt_tests::{Sandbox, wait_until};

use crate::world::{SERVED, binary};

const SOON: Duration = Duration::from_secs(20);

/// A process of another user that has locked a directory, and ends with this.
struct Stranger(Child);

impl Stranger {
    fn lock(dir: &Path) -> Self {
        let child = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args(["flock", "--no-fork", dir.to_str().unwrap(), "sleep", "600"])
            .spawn()
            .unwrap();
        let stranger = Self(child);
        wait_until("the directory is locked", SOON, || {
            let open = File::open(dir).unwrap();
            Flock::lock(open, FlockArg::LockExclusiveNonblock)
                .is_err()
                .then_some(())
        })
        .unwrap();
        stranger
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// An agent that pins nothing, with its log.
struct Started {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Started {
    fn new(sandbox: &Sandbox, dir: &Path) -> Self {
        let mut command = Command::new(binary());
        command
            .args(["agent", "--no-pin", "--socket-lb", "off", "--socket"])
            .arg(dir.join("shunt.sock"))
            .arg("--linkerd-api")
            .arg(dir.join("linkerd.sock"))
            .env("RUST_LOG", "info")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = sandbox.node().enter(|| command.spawn().unwrap());
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log }
    }

    /// Reads the log to a line with these words.
    fn wait_for(&mut self, words: &str) {
        let mut lines = self.log.by_ref().lines();
        let found = lines.any(|line| line.unwrap().contains(words));
        assert!(found, "the log ends without {words:?}");
    }

    /// Asks the agent to end; returns whether it ends well.
    fn terminate(&mut self) -> bool {
        let process = Pid::from_raw(self.child.id().cast_signed());
        kill(process, Signal::SIGTERM).unwrap();
        let ended = wait_until("it ends", SOON, || self.child.try_wait().unwrap());
        ended.unwrap().success()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn another_users_lock_on_the_sockets_directory_keeps_no_agent_from_starting() {
    let Some(sandbox) = Sandbox::serving(SERVED) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    // As /run/shunt is that a container runtime makes.
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let _stranger = Stranger::lock(dir.path());
    let mut agent = Started::new(&sandbox, dir.path());
    agent.wait_for(" ready: ");
    for socket in ["shunt.sock", "linkerd.sock"] {
        let lock = dir.path().join(format!("{socket}.lock"));
        let mode = fs::metadata(lock).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{socket}");
    }
    let mode = fs::metadata(dir.path()).unwrap().permissions().mode();
    assert_eq!(
        mode & 0o7777,
        0o755,
        "a directory that is there keeps its mode"
    );
    assert!(agent.terminate());
}

/// Takes the lock of the socket in this directory.
fn hold_lock(dir: &Path) -> Flock<File> {
    let lock = File::create(dir.join("shunt.sock.lock")).unwrap();
    Flock::lock(lock, FlockArg::LockExclusive).unwrap()
}

#[test]
fn an_agent_that_waits_for_a_lock_can_be_ended() {
    let Some(sandbox) = Sandbox::serving(SERVED) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let _held = hold_lock(dir.path());
    let mut agent = Started::new(&sandbox, dir.path());
    agent.wait_for("waiting up to 5 s: ");
    assert!(agent.terminate(), "it waits to the end");
}

#[test]
fn a_lock_that_stays_is_an_error_that_names_its_holder() {
    let Some(sandbox) = Sandbox::serving(SERVED) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let _held = hold_lock(dir.path());
    let mut agent = Started::new(&sandbox, dir.path());
    agent.wait_for(&format!(
        "shunt.sock.lock is locked by process {}",
        std::process::id()
    ));
    let ended = wait_until("it ends", SOON, || agent.child.try_wait().unwrap());
    assert_eq!(ended.unwrap().code(), Some(1));
}
