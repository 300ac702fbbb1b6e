//! The machine: qemu with a kernel, an initramfs and this host's files.

use std::{
    fmt,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::packages::{Kernel, Qemu};

/// Number of lines of the kernel's console that are shown after a failure.
const TAIL: usize = 40;

/// Time that a machine with KVM may take to its first word, which comes after some seconds. Where
/// the processor has no VMX or SVM behind `/dev/kvm`, a machine starts and does nothing for ever, or
/// qemu fails over a register of the processor's that it cannot set.
const FIRST_WORD: Duration = Duration::from_secs(30);

/// Executor of the machine's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accelerator {
    /// The processor, through `/dev/kvm`.
    Kvm,
    /// qemu.
    Emulation,
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kvm => "with KVM",
            Self::Emulation => "emulated",
        })
    }
}

impl Accelerator {
    /// Returns the factor by which tests wait longer there than here.
    fn patience(self) -> u32 {
        match self {
            Self::Kvm => 1,
            Self::Emulation => 30,
        }
    }
}

/// End of a machine.
enum End {
    /// It has done its work.
    Done,
    /// It has written nothing at all.
    Silent,
}

/// A machine that runs once.
pub(super) struct Machine<'a> {
    pub(super) qemu: &'a Qemu,
    pub(super) kernel: &'a Kernel,
    pub(super) initramfs: &'a Path,
    /// File to which the kernel's console is written.
    pub(super) console: &'a Path,
}

impl Machine<'_> {
    /// Runs the machine until it switches itself off, and passes each line that it writes to
    /// `read`. Uses KVM where it works; returns what was used.
    ///
    /// # Errors
    ///
    /// When it does not end within `limit`, or not by itself; the kernel's last words are shown.
    pub(super) fn run(&self, limit: Duration, mut read: impl FnMut(&str)) -> Result<Accelerator> {
        if has_kvm() {
            match self.run_with(Accelerator::Kvm, limit, &mut read)? {
                End::Done => return Ok(Accelerator::Kvm),
                End::Silent => {
                    eprintln!("/dev/kvm is there and does not work: no sign of life; emulating");
                }
            }
        }
        match self.run_with(Accelerator::Emulation, limit, &mut read)? {
            End::Done => Ok(Accelerator::Emulation),
            End::Silent => bail!("the machine has said nothing"),
        }
    }

    fn run_with(
        &self,
        accelerator: Accelerator,
        limit: Duration,
        read: &mut impl FnMut(&str),
    ) -> Result<End> {
        let mut command = self.command(accelerator);
        let mut child = command.spawn().context("cannot run qemu")?;
        let output = child.stdout.take().context("qemu has no output")?;
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || forward_lines(output, &sender));
        let outcome = follow(&mut child, &lines, accelerator, limit, read);
        drop(lines);
        drop(reader.join());
        if outcome.is_err() {
            self.show_console();
        }
        outcome
    }

    fn command(&self, accelerator: Accelerator) -> Command {
        let Self {
            qemu,
            kernel,
            initramfs,
            console,
        } = self;
        let mut command = qemu.command();
        match accelerator {
            Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host", "-smp", "2"]),
            // One CPU: emulated ones see each other's changes of the kernel's code too late
            // (seen with qemu 7.2 and Linux 6.12: an int3 that no processor expects).
            Accelerator::Emulation => command.args(["-accel", "tcg", "-cpu", "max", "-smp", "1"]),
        };
        command
            .args([
                "-m",
                "2048",
                "-nodefaults",
                "-no-reboot",
                "-display",
                "none",
            ])
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .args(["-serial", "stdio"])
            .arg("-kernel")
            .arg(&kernel.image)
            .arg("-initrd")
            .arg(initramfs)
            // A parameter that the kernel does not know is a variable of the first process'. The
            // kernel gives way in all that it does: the only emulated CPU would be with a program
            // that it verifies for half a minute, and clients wait.
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet panic=-1 mitigations=off preempt=full \
                 SHUNT_PATIENCE={}",
                accelerator.patience()
            ));
        for (tag, path) in [("host", Path::new("/")), ("modules", &kernel.modules)] {
            command
                .arg("-fsdev")
                .arg(format!(
                    "local,id={tag},path={},security_model=none,readonly=on,multidevs=remap",
                    path.display()
                ))
                .arg("-device")
                .arg(format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    fn show_console(&self) {
        let text = fs::read(self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        eprintln!("the last lines of the kernel's console:");
        for line in &lines[lines.len().saturating_sub(TAIL)..] {
            eprintln!("  {line}");
        }
    }
}

/// Sends each line of what the machine writes.
fn forward_lines(output: ChildStdout, lines: &Sender<String>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if lines.send(text).is_err() {
            return;
        }
        line.clear();
    }
}

/// Follows a running machine to its end, or ends it when its time is over.
fn follow(
    child: &mut Child,
    lines: &Receiver<String>,
    accelerator: Accelerator,
    limit: Duration,
    read: &mut impl FnMut(&str),
) -> Result<End> {
    let start = Instant::now();
    let (mut has_spoken, mut ended) = (false, false);
    loop {
        let waits_for_first = accelerator == Accelerator::Kvm && !has_spoken;
        let limit = if waits_for_first { FIRST_WORD } else { limit };
        match lines.recv_timeout((start + limit).saturating_duration_since(Instant::now())) {
            Ok(line) => {
                has_spoken = true;
                ended |= line.starts_with("job exit ");
                read(&line);
            }
            Err(RecvTimeoutError::Disconnected) if waits_for_first => {
                child.wait()?;
                return Ok(End::Silent);
            }
            Err(RecvTimeoutError::Disconnected) => return finish(child, ended),
            Err(RecvTimeoutError::Timeout) => {
                child.kill().context("cannot end qemu")?;
                child.wait()?;
                if waits_for_first {
                    return Ok(End::Silent);
                }
                bail!("the machine was not done after {} s", limit.as_secs());
            }
        }
    }
}

/// The machine has closed its output.
fn finish(child: &mut Child, ended: bool) -> Result<End> {
    let status = child.wait()?;
    if !status.success() {
        bail!("qemu failed ({status})");
    }
    if !ended {
        bail!("the machine ended before the tests did");
    }
    Ok(End::Done)
}

/// Returns whether this process may use KVM.
fn has_kvm() -> bool {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok()
}
