//! Network namespaces that remove themselves.

use std::{
    ffi::OsStr,
    fmt,
    fs::{self, File},
    os::fd::{AsFd as _, BorrowedFd},
    panic,
    path::{Path, PathBuf},
    process,
    sync::Once,
    thread,
};

use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, setns};

use crate::{
    leftovers::reap,
    process::{run, run_with_input},
};

/// Folder of the names of `ip netns`.
const NAMES: &str = "/run/netns";

/// Begin of the names of all our namespaces.
const PREFIX: &str = "shunt-";

/// A named network namespace, removed when dropped.
///
/// It is called `shunt-<pid>-<sandbox>-<role>`, so that several sandboxes and several processes
/// can exist at once, and so that what a killed process left differs from what is in use.
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Makes the namespace that plays `role` in the sandbox with this number; its loopback is up.
    ///
    /// # Errors
    ///
    /// Without root, or without the `ip` command.
    pub fn new(sandbox: u32, role: &str) -> Result<Self> {
        static REAPED: Once = Once::new();
        REAPED.call_once(|| reap(NAMES, owner, remove_leftover));

        let name = format!("{PREFIX}{}-{sandbox}-{role}", process::id());
        run("ip", &["netns", "add", &name])?;
        let path = Path::new(NAMES).join(&name);
        match File::open(&path).with_context(|| format!("cannot open {}", path.display())) {
            Ok(file) => {
                let namespace = Self { name, file };
                namespace.configure("link set lo up\n")?;
                // No address is there twice, so each is of use at once.
                for interfaces in ["all", "default"] {
                    namespace.set_ipv6(&format!("conf/{interfaces}/accept_dad"), "0")?;
                }
                Ok(namespace)
            }
            Err(error) => {
                remove(&name);
                Err(error)
            }
        }
    }

    /// The name for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it, for processes that enter it by themselves.
    pub fn path(&self) -> PathBuf {
        Path::new(NAMES).join(&self.name)
    }

    /// The descriptor for `setns(2)`.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Runs `work` inside the namespace, on a thread of its own, and waits for it. Sockets and
    /// threads that it makes stay in the namespace.
    ///
    /// # Panics
    ///
    /// When `work` does, or when the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            if let Err(error) = setns(&self.file, CloneFlags::CLONE_NEWNET) {
                panic!("cannot enter the namespace {}: {error}", self.name);
            }
            work()
        };
        match thread::scope(|scope| scope.spawn(inside).join()) {
            Ok(value) => value,
            Err(payload) => panic::resume_unwind(payload),
        }
    }

    /// Runs `ip` commands inside the namespace, one a line, without the word `ip`.
    ///
    /// # Errors
    ///
    /// At the first line that fails; the lines before it have taken effect.
    pub fn configure(&self, commands: &str) -> Result<()> {
        self.query(commands).map(drop)
    }

    /// As [`Self::configure`]; returns the output of the commands.
    ///
    /// # Errors
    ///
    /// As [`Self::configure`].
    pub fn query(&self, commands: &str) -> Result<String> {
        run_with_input("ip", &["-n", &self.name, "-batch", "-"], commands)
    }

    /// Runs a command inside the namespace, with `input` on its standard input, and returns what it
    /// writes to its standard output.
    ///
    /// # Errors
    ///
    /// When it cannot be started or fails; the text has the command line and what it wrote to
    /// standard error.
    pub fn run_with_input<S: AsRef<OsStr> + Sync>(
        &self,
        program: &str,
        arguments: &[S],
        input: &str,
    ) -> Result<String> {
        // A child is in the namespace of the thread that starts it.
        self.enter(|| run_with_input(program, arguments, input))
    }

    /// Writes a setting, by its path below `/proc/sys`.
    ///
    /// # Errors
    ///
    /// When the setting does not exist or refuses the value.
    pub fn set(&self, setting: &str, value: &str) -> Result<()> {
        let path = Path::new("/proc/sys").join(setting);
        // The network part of /proc/sys shows the namespace of the thread that opens it.
        self.enter(|| fs::write(&path, value)).with_context(|| {
            format!(
                "cannot write {value} to {} in {}",
                path.display(),
                self.name
            )
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, file: _ } = self;
        f.debug_tuple("Namespace").field(name).finish()
    }
}

fn remove(name: &str) {
    if let Err(error) = run("ip", &["netns", "delete", name]) {
        eprintln!("left behind: {error:#}");
    }
}

/// Removes what another process left, if no third one does.
fn remove_leftover(path: &Path) {
    if let Some(name) = path.file_name() {
        drop(run(
            "ip",
            &[OsStr::new("netns"), OsStr::new("delete"), name],
        ));
    }
}

/// The process that made the namespace, if it is one of ours.
fn owner(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
    let owner = parts.next()?.parse().ok()?;
    let _sandbox: u32 = parts.next()?.parse().ok()?;
    parts.next().map(|_role| owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_have_an_owner() {
        let cases = [
            ("shunt-4711-0-pod-a", Some(4711)),
            ("shunt-4711-12-node", Some(4711)),
            ("shunt-4711-node", None),
            ("shunt-test", None),
            ("shunt--1-0-node", None),
            ("cni-4711-0-node", None),
        ];
        for (name, expected) in cases {
            assert_eq!(owner(name), expected, "{name}");
        }
    }
}
