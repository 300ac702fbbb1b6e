//! Child processes: commands that must succeed, and processes that live in a namespace.

use std::{
    ffi::OsStr,
    io::Write as _,
    os::{
        fd::{AsRawFd as _, BorrowedFd},
        unix::process::CommandExt as _,
    },
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sched::{CloneFlags, setns},
    sys::{
        prctl,
        signal::{SigSet, Signal},
    },
    unistd::{Gid, Pid, Uid, getpid, getppid, setgroups, setresgid, setresuid},
};

use crate::namespace::Namespace;

/// The user who owns nothing, and its group.
const NOBODY: Uid = Uid::from_raw(65534);
const NOBODYS_GROUP: Gid = Gid::from_raw(65534);

/// Limit of the part of a command's input that its error shows, in characters.
const SHOWN: usize = 10_000;

/// Runs a command to its end and returns its standard output.
///
/// # Errors
///
/// When it cannot be started or fails; the text has the command line and what it wrote to standard
/// error.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<String> {
    run_with_input(program, arguments, "")
}

/// As [`run`], with `input` on standard input.
pub(crate) fn run_with_input<S: AsRef<OsStr>>(
    program: &str,
    arguments: &[S],
    input: &str,
) -> Result<String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for the harness, which then cleans up with commands like this one.
        .process_group(0);
    let line = command_line(&command);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that fails early closes its input; its own error has more than ours.
        drop(stdin.write_all(input.as_bytes()));
    }
    let output = child
        .wait_with_output()
        .with_context(|| format!("cannot wait for `{line}`"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let input = if input.is_empty() {
            String::new()
        } else {
            let shown: String = input.chars().take(SHOWN).collect();
            format!("\ninput:\n{shown}")
        };
        bail!(
            "`{line}` failed ({}): {}{input}",
            output.status,
            error.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes `command` run inside `namespace`, end with the thread that starts it, and get no signals
/// from the terminal.
///
/// The kernel ties the child to the *thread* that forks it, so start it from one that stays.
/// The namespace must live until the command is spawned.
pub(crate) fn contain(command: &mut Command, namespace: &Namespace) {
    let descriptor = namespace.descriptor().as_raw_fd();
    let harness = getpid();
    command.process_group(0);
    // SAFETY: between fork and exec the closure only makes system calls (setns, prctl,
    // sigprocmask, getppid), which are async-signal-safe; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || enter_as_child(descriptor, harness));
    }
}

/// As [`contain`], as a user who has no rights at all.
pub(crate) fn contain_unprivileged(command: &mut Command, namespace: &Namespace) {
    contain(command, namespace);
    // SAFETY: as in `contain`: system calls alone (setgroups, setresgid, setresuid, prctl).
    unsafe {
        command.pre_exec(|| {
            setgroups(&[])?;
            setresgid(NOBODYS_GROUP, NOBODYS_GROUP, NOBODYS_GROUP)?;
            setresuid(NOBODY, NOBODY, NOBODY)?;
            // The kernel forgets it when a process changes its user.
            Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
        });
    }
}

/// Enters the namespace, in the child between fork and exec.
fn enter_as_child(descriptor: i32, harness: Pid) -> std::io::Result<()> {
    // SAFETY: the descriptor is the namespace's, open in the harness when it forked, and so is
    // this process' copy of it.
    let namespace = unsafe { BorrowedFd::borrow_raw(descriptor) };
    setns(namespace, CloneFlags::CLONE_NEWNET)?;
    // A harness that waits for signals in a thread of its own has them blocked everywhere else.
    SigSet::empty().thread_set_mask()?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != harness {
        // The harness died before the line above could take effect.
        return Err(nix::errno::Errno::ESRCH.into());
    }
    Ok(())
}

/// The command as one would type it.
pub(crate) fn command_line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}
