//! The agent as a process in the node's namespace.

pub(crate) mod log;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fmt, fs,
    io::Write as _,
    net::Ipv6Addr,
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use self::log::Log;
use crate::{
    ack::Ack,
    namespace::Namespace,
    pin_dir::PinDir,
    process::{command_line, contain, run},
    socket_path::SocketPath,
    wait::wait_until,
};

/// Time that the agent may take to load its programs and log that it is ready.
const START: Duration = Duration::from_secs(20);

/// Time that it may take to answer an event.
const ANSWER: Duration = Duration::from_secs(10);

/// Time that it may take to detach and exit.
const EXIT: Duration = Duration::from_secs(10);

/// The part of its log that shows that it reads events.
const READY: &str = " ready: ";

/// The log's words when the kernel begins with its programs.
const VERIFYING: &str = "the kernel verifies the programs";

/// A running agent that reads events from us. Dropping it stops it.
pub struct Agent {
    child: Child,
    stdin: ChildStdin,
    log: Log,
    lines: u64,
    socket: SocketPath,
}

impl Agent {
    /// Starts `binary agent --events - --pin-dir pins --socket socket flags…` in the namespace and
    /// waits until it is ready. The socket is one of its own. Unless a flag sets it, nothing is
    /// translated at the sockets of this machine: several agents would do it at once.
    ///
    /// The agent is killed when the thread that called this ends, so call it from one that stays.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or exits, or is not ready in time; the text has its log.
    pub fn start<S: AsRef<OsStr>>(
        binary: &Path,
        namespace: &Namespace,
        pins: &PinDir,
        flags: &[S],
    ) -> Result<Self> {
        Self::launch(binary, namespace, pins, &["--events", "-"], &[], flags)
    }

    /// As [`Self::start`], with an agent that follows a cluster: it runs with `--kubernetes` in place
    /// of `--events -`, and takes no event from us.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn follow<S: AsRef<OsStr>>(
        binary: &Path,
        namespace: &Namespace,
        pins: &PinDir,
        flags: &[S],
    ) -> Result<Self> {
        Self::launch(binary, namespace, pins, &["--kubernetes"], &[], flags)
    }

    /// As [`Self::follow`], with an agent that logs what one does of which nothing is asked: no line for
    /// each change.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn follow_quietly<S: AsRef<OsStr>>(
        binary: &Path,
        namespace: &Namespace,
        pins: &PinDir,
        flags: &[S],
    ) -> Result<Self> {
        let environment = [("RUST_LOG", "info")];
        Self::launch(
            binary,
            namespace,
            pins,
            &["--kubernetes"],
            &environment,
            flags,
        )
    }

    /// As [`Self::follow`], with an agent that follows Consul: it runs with `--consul` and these variables
    /// of its environment; the flags name the frontends.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn follow_consul<S: AsRef<OsStr>>(
        binary: &Path,
        namespace: &Namespace,
        pins: &PinDir,
        environment: &[(&str, &str)],
        flags: &[S],
    ) -> Result<Self> {
        Self::launch(binary, namespace, pins, &["--consul"], environment, flags)
    }

    /// As [`Self::start`], with an agent that takes no event from us, and begins with none: what it knows
    /// is registered with it.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn alone<S: AsRef<OsStr>>(
        binary: &Path,
        namespace: &Namespace,
        pins: &PinDir,
        flags: &[S],
    ) -> Result<Self> {
        Self::launch(binary, namespace, pins, &[], &[], flags)
    }

    /// As [`Self::alone`], with these variables of its environment and no flag.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn with_environment(
        binary: &Path,
        namespace: &Namespace,
        pins: &PinDir,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        Self::launch::<&str>(binary, namespace, pins, &[], environment, &[])
    }

    /// Starts it as [`Self::start`] does, but returns when the kernel begins to verify its programs.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn loading<S: AsRef<OsStr>>(
        binary: &Path,
        namespace: &Namespace,
        pins: &PinDir,
        flags: &[S],
    ) -> Result<Self> {
        let environment = [("RUST_LOG", "info,shunt_datapath=debug")];
        let source = ["--events", "-"];
        let until = VERIFYING;
        Self::launch_until(until, binary, namespace, pins, &source, &environment, flags)
    }

    fn launch<S: AsRef<OsStr>>(
        binary: &Path,
        namespace: &Namespace,
        pins: &PinDir,
        source: &[&str],
        environment: &[(&str, &str)],
        flags: &[S],
    ) -> Result<Self> {
        Self::launch_until(READY, binary, namespace, pins, source, environment, flags)
    }

    fn launch_until<S: AsRef<OsStr>>(
        until: &str,
        binary: &Path,
        namespace: &Namespace,
        pins: &PinDir,
        source: &[&str],
        environment: &[(&str, &str)],
        flags: &[S],
    ) -> Result<Self> {
        let socket = SocketPath::new();
        let mut command = Command::new(binary);
        command
            .arg("agent")
            .args(source)
            .arg("--pin-dir")
            .arg(pins.path())
            .arg("--socket")
            .arg(socket.path())
            .args(flags)
            .args(without_sockets(binary, flags)?)
            .args(families_of(namespace, flags))
            // It logs the outcome of each event, also where nothing changed or many came at once.
            .env("RUST_LOG", "info,shunt_runtime::event_loop=debug")
            .env("NO_COLOR", "1")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        contain(&mut command, namespace);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start `{}`", command_line(&command)))?;
        let (Some(stdin), Some(stderr)) = (child.stdin.take(), child.stderr.take()) else {
            bail!("the agent has no pipes");
        };
        let agent = Self {
            child,
            stdin,
            log: Log::follow(stderr)?,
            lines: 0,
            socket,
        };
        let ready = |line: &str| line.contains(until).then_some(());
        if let Err(error) = agent.log.wait_for(0, START, ready) {
            let line = command_line(&command);
            bail!(
                "`{line}` does not become ready: {error}; its log:\n{}",
                agent.log()
            );
        }
        Ok(agent)
    }

    /// Hands it one event (a JSON object without line breaks) and waits for its answer.
    ///
    /// # Errors
    ///
    /// When it does not answer in time, or has exited; the text has its log.
    pub fn apply(&mut self, event: &str) -> Result<Ack> {
        let seen = self.log.len();
        self.lines += 1;
        let line = self.lines;
        self.stdin
            .write_all(format!("{event}\n").as_bytes())
            .and_then(|()| self.stdin.flush())
            .and_then(|()| {
                self.log
                    .wait_for(seen, ANSWER, |text| Ack::find(text, line))
            })
            .map_err(|error| {
                let log = self.log();
                anyhow!("the agent does not answer line {line}: {error}\n{event}\nits log:\n{log}")
            })
    }

    /// Hands it events without waiting for an answer to any.
    ///
    /// # Errors
    ///
    /// When it has exited.
    pub fn send<S: AsRef<str>>(&mut self, events: &[S]) -> Result<()> {
        for event in events {
            self.lines += 1;
            writeln!(self.stdin, "{}", event.as_ref())?;
        }
        Ok(())
    }

    /// As [`Agent::apply`], for an event that must take effect.
    ///
    /// # Errors
    ///
    /// When it is refused, too.
    pub fn apply_all<S: AsRef<str>>(&mut self, events: &[S]) -> Result<()> {
        for event in events {
            let event = event.as_ref();
            if let Ack::Refused(reason) = self.apply(event)? {
                bail!("the agent refuses {event}\nbecause {reason}");
            }
        }
        Ok(())
    }

    /// Returns whether it reads events, or has read them.
    pub fn is_ready(&self) -> bool {
        self.log().contains(READY)
    }

    /// Everything that it has logged so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// The ids of the kernel programs that it holds, directly or through a link.
    ///
    /// # Errors
    ///
    /// When the process is gone.
    pub fn programs(&self) -> Result<BTreeSet<u32>> {
        let folder = Path::new("/proc")
            .join(self.pid().to_string())
            .join("fdinfo");
        let entries = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
        // A descriptor may be closed between the listing and the reading.
        let texts = entries
            .flatten()
            .filter_map(|entry| fs::read_to_string(entry.path()).ok());
        Ok(texts
            .flat_map(|text| program_ids(&text).collect::<Vec<_>>())
            .collect())
    }

    /// Returns its exit status, if it has ended by itself.
    ///
    /// # Errors
    ///
    /// When the kernel does not report it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.log.wait_for_end(ANSWER);
        }
        Ok(status)
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

    /// Sends it this signal, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// When it does not end in time.
    pub fn end(&mut self, signal: Signal) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        kill(Pid::from_raw(self.child.id().cast_signed()), signal)
            .context("cannot signal the agent")?;
        let child = &mut self.child;
        wait_until(&format!("the agent's exit after {signal}"), EXIT, || {
            child.try_wait().transpose()
        })?
        .context("cannot wait for the agent")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Err(error) = self.end(Signal::SIGTERM) {
            eprintln!("{error:#}; its log:\n{}", self.log());
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            child,
            stdin: _,
            log: _,
            lines,
            socket,
        } = self;
        f.debug_struct("Agent")
            .field("pid", &child.id())
            .field("lines", lines)
            .field("socket", &socket.path())
            .finish()
    }
}

/// Returns flags that keep an agent from the machine's cgroups, if it knows them and `flags` do not
/// set its action there.
fn without_sockets<S: AsRef<OsStr>>(binary: &Path, flags: &[S]) -> Result<&'static [&'static str]> {
    const FLAG: &str = "--socket-lb";
    if flags.iter().any(|flag| flag.as_ref() == FLAG) {
        return Ok(&[]);
    }
    // An agent of an earlier version knows none of this.
    let help = run(&binary.to_string_lossy(), &["agent", "--help"])?;
    Ok(if help.contains(FLAG) {
        &[FLAG, "off"]
    } else {
        &[]
    })
}

/// True if agents translate by their flags, wherever they run.
static IS_MEASURED: AtomicBool = AtomicBool::new(false);

/// Has agents translate both families by default, also in a namespace without IPv6: benches measure what a user has.
pub fn measure_agents() {
    IS_MEASURED.store(true, Ordering::Relaxed);
}

/// Returns the flag that leaves out IPv6 if the namespace has no IPv6 address beyond its links, and `flags` name neither
/// families nor an IPv6 address: the verifier takes half the time for one family.
fn families_of<S: AsRef<OsStr>>(namespace: &Namespace, flags: &[S]) -> &'static [&'static str] {
    const FLAG: &str = "--ip-families";
    let is_named = IS_MEASURED.load(Ordering::Relaxed)
        || flags.iter().any(|flag| {
            let flag = flag.as_ref().to_string_lossy();
            let address = flag.split('/').next().unwrap_or_default();
            flag.starts_with(FLAG) || address.parse::<Ipv6Addr>().is_ok()
        });
    let addresses = namespace
        .enter(|| fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default());
    if is_named || addresses.lines().any(is_global) {
        &[]
    } else {
        &[FLAG, "ipv4"]
    }
}

/// True if a line of `/proc/net/if_inet6` is an address of global scope.
fn is_global(line: &str) -> bool {
    line.split_whitespace().nth(3) == Some("00")
}

/// The program ids in a file of `/proc/PID/fdinfo`.
fn program_ids(fdinfo: &str) -> impl Iterator<Item = u32> {
    fdinfo
        .lines()
        .filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_links_and_of_the_host_are_not_global() {
        let line = |scope: &str| format!("20010db8000000000000000000000001 02 40 {scope} 80 eth0");
        assert!(is_global(&line("00")));
        assert!(!is_global(&line("10")) && !is_global(&line("20")) && !is_global(""));
    }

    #[test]
    fn program_ids_are_read_from_fdinfo() {
        let link = "pos:\t0\nlink_type:\ttcx\nlink_id:\t3\nprog_tag:\tcafe\nprog_id:\t42\n";
        assert_eq!(program_ids(link).collect::<Vec<_>>(), [42]);
    }
}
