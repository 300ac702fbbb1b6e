//! The controller as a process in the node's namespace, of a user without any rights.

use std::{
    fmt,
    fs::File,
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    agent::log::Log, namespace::Namespace, process::contain_unprivileged, wait::wait_until,
};

/// Time that it may take to end.
const EXIT: Duration = Duration::from_secs(10);

/// A running controller. Dropping it stops it.
pub struct Controller {
    child: Child,
    log: Log,
}

impl Controller {
    /// Starts `binary controller flags…` in the namespace.
    ///
    /// It is killed when the thread that called this ends, so call it from one that stays.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(binary: &Path, namespace: &Namespace, flags: &[&str]) -> Result<Self> {
        // The user may not enter the home folder that the builds are in, so the kernel gets the open file.
        let executable =
            File::open(binary).with_context(|| format!("cannot open {}", binary.display()))?;
        let mut command = Command::new(format!("/proc/self/fd/{}", executable.as_raw_fd()));
        command
            .arg0(binary)
            .arg("controller")
            .args(flags)
            .env("RUST_LOG", "info")
            .env("NO_COLOR", "1")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        contain_unprivileged(&mut command, namespace);
        let line = format!("{} controller {}", binary.display(), flags.join(" "));
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start `{line}`"))?;
        let stderr = child.stderr.take();
        let stderr = stderr.ok_or_else(|| anyhow!("`{line}` has no pipe"))?;
        Ok(Self {
            child,
            log: Log::follow(stderr)?,
        })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it has logged so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Has it do nothing until it is [continued](Self::go_on), as on a machine that is suspended.
    ///
    /// # Errors
    ///
    /// When it is gone.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Has it go on.
    ///
    /// # Errors
    ///
    /// When it is gone.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Asks it to end with SIGTERM, and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not end in time.
    pub fn stop(mut self) -> Result<ExitStatus> {
        self.end(Signal::SIGTERM)
    }

    /// Kills it with SIGKILL, which it cannot prepare for.
    ///
    /// # Errors
    ///
    /// When the process does not end.
    pub fn kill(mut self) -> Result<ExitStatus> {
        self.end(Signal::SIGKILL)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal)
            .context("cannot signal the controller")
    }

    fn end(&mut self, signal: Signal) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        self.signal(signal)?;
        let child = &mut self.child;
        wait_until(
            &format!("the controller's exit after {signal}"),
            EXIT,
            || child.try_wait().transpose(),
        )?
        .context("cannot wait for the controller")
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // One that is paused hears nothing else.
        if self.end(Signal::SIGKILL).is_err() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("pid", &self.child.id())
            .finish_non_exhaustive()
    }
}
