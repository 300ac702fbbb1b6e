//! Cgroups that remove themselves, and processes in them.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd},
        unix::process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::statfs::{CGROUP2_SUPER_MAGIC, statfs},
    unistd::write,
};

use crate::{
    leftovers::{name, owner, reap},
    namespace::Namespace,
    process::{command_line, contain},
    wait::wait_until,
};

/// Root of the cgroups (version 2), with and without those of version 1 beside it.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// Time that the last process of a cgroup may take to go.
const SOON: Duration = Duration::from_secs(5);

/// A cgroup without a process, right below the root, removed when dropped.
///
/// It is called `shunt-test-<pid>-<number>`, so that what a killed process left differs from
/// what is in use.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    processes: File,
}

impl Cgroup {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// Without root, or if no cgroup file system of version 2 is mounted where it usually is.
    pub fn new() -> Result<Self> {
        static REAPED: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let root = root()?;
        REAPED.call_once(|| reap(root, owner, |path| drop(fs::remove_dir(path))));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(root).join(name(number));
        let processes = make(&path)?;
        Ok(Self { path, processes })
    }

    /// Removes it, once its last process is gone.
    ///
    /// # Errors
    ///
    /// If a process stays.
    pub fn remove(&self) -> Result<()> {
        // The kernel lets a process go a little after it was waited for.
        wait_until("the cgroup is removed", SOON, || {
            fs::remove_dir(&self.path).ok()
        })
    }

    /// Makes another one at the path of this one, which was removed.
    ///
    /// # Errors
    ///
    /// If it is still there.
    pub fn make_again(&mut self) -> Result<()> {
        self.processes = make(&self.path)?;
        Ok(())
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a command to its end, in this cgroup and in `namespace`. Returns what it writes to its
    /// standard output.
    ///
    /// # Errors
    ///
    /// When it cannot be started or fails; the text has what it wrote to standard error.
    pub fn run<S: AsRef<OsStr>>(
        &self,
        namespace: &Namespace,
        program: &Path,
        arguments: &[S],
    ) -> Result<String> {
        let mut command = self.command(namespace, program, arguments);
        let line = command_line(&command);
        let output = command
            .output()
            .with_context(|| format!("cannot start `{line}`"))?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("`{line}` failed ({}): {}", output.status, error.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a command in this cgroup and in `namespace`, with pipes to its standard input and from
    /// its standard output.
    ///
    /// It is killed when the thread that called this ends, so call it from one that stays.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn spawn<S: AsRef<OsStr>>(
        &self,
        namespace: &Namespace,
        program: &Path,
        arguments: &[S],
    ) -> Result<Child> {
        let mut command = self.command(namespace, program, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let line = command_line(&command);
        command
            .spawn()
            .with_context(|| format!("cannot start `{line}`"))
    }

    /// A command that will run in this cgroup and in `namespace`.
    fn command<S: AsRef<OsStr>>(
        &self,
        namespace: &Namespace,
        program: &Path,
        arguments: &[S],
    ) -> Command {
        let mut command = Command::new(program);
        command.args(arguments);
        contain(&mut command, namespace);
        let processes = self.processes.as_fd().as_raw_fd();
        // SAFETY: between fork and exec the closure only writes to a file, which is
        // async-signal-safe.
        unsafe {
            command.pre_exec(move || join(processes));
        }
        command
    }
}

/// The directory of the cgroup that this process is in, and all of its threads.
///
/// # Errors
///
/// If it is in none, or no cgroup file system of version 2 is mounted where it usually is.
pub fn own_cgroup() -> Result<PathBuf> {
    let lines = fs::read_to_string("/proc/self/cgroup").context("cannot read /proc/self/cgroup")?;
    let own = lines.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = own.context("this process is in no cgroup of version 2")?;
    Ok(Path::new(root()?).join(own))
}

/// The root of the cgroups of version 2.
fn root() -> Result<&'static str> {
    let is_cgroup = |path: &&str| {
        statfs(*path).is_ok_and(|there| there.filesystem_type() == CGROUP2_SUPER_MAGIC)
    };
    match ROOTS.iter().copied().find(is_cgroup) {
        Some(root) => Ok(root),
        None => bail!("no cgroup file system of version 2 is mounted at any of {ROOTS:?}"),
    }
}

/// Makes the cgroup with this directory. Returns the file that processes join it by.
fn make(path: &Path) -> Result<File> {
    let failed = || format!("cannot make the cgroup {}", path.display());
    fs::create_dir(path).with_context(failed)?;
    let processes = OpenOptions::new()
        .write(true)
        .open(path.join("cgroup.procs"));
    processes.with_context(failed)
}

/// Joins the cgroup, in the child between fork and exec.
fn join(processes: i32) -> std::io::Result<()> {
    // SAFETY: the descriptor is the cgroup's, open in the harness when it forked, and so is this
    // process' copy of it.
    let processes = unsafe { BorrowedFd::borrow_raw(processes) };
    // 0 is the process that writes.
    write(processes, b"0")?;
    Ok(())
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("left behind: {}: {error}", self.path.display());
        }
    }
}
