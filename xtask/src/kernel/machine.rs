//! The machine: qemu with a kernel, an initramfs and this host's files.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::packages::{Kernel, Qemu};

/// How many lines of the kernel's console are shown after a failure.
const TAIL: usize = 40;

/// A machine that runs once.
pub(super) struct Machine<'a> {
    pub(super) qemu: &'a Qemu,
    pub(super) kernel: &'a Kernel,
    pub(super) initramfs: &'a Path,
    /// Where the kernel's console is written.
    pub(super) console: &'a Path,
}

impl Machine<'_> {
    /// Whether the processor's own means are used.
    pub(super) fn speed(&self) -> &'static str {
        if has_kvm() {
            "with KVM"
        } else {
            "emulated, there is no KVM here"
        }
    }

    /// Runs the machine until it switches itself off, and gives each line that it writes to
    /// `read`.
    ///
    /// # Errors
    ///
    /// When it does not end within `limit`, or not by itself; the kernel's last words are shown.
    pub(super) fn run(&self, limit: Duration, mut read: impl FnMut(&str)) -> Result<()> {
        let mut command = self.command();
        let mut child = command.spawn().context("cannot run qemu")?;
        let output = child.stdout.take().context("qemu has no output")?;
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let deadline = Instant::now() + limit;
        let mut ended = false;
        let outcome = loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    ended |= line.starts_with("job exit ");
                    read(&line);
                }
                Err(RecvTimeoutError::Disconnected) => break finish(&mut child, ended),
                Err(RecvTimeoutError::Timeout) => {
                    child.kill().context("cannot end qemu")?;
                    child.wait()?;
                    break Err(anyhow::anyhow!(
                        "the machine was not done after {} s",
                        limit.as_secs()
                    ));
                }
            }
        };
        drop(lines);
        drop(reader.join());
        if outcome.is_err() {
            self.show_console();
        }
        outcome
    }

    fn command(&self) -> Command {
        let Self {
            qemu,
            kernel,
            initramfs,
            console,
        } = self;
        let mut command = qemu.command();
        if has_kvm() {
            command.args(["-accel", "kvm", "-cpu", "host", "-smp", "2"]);
        } else {
            // One CPU: emulated ones see each other's changes of the kernel's code too late
            // (seen with qemu 7.2 and Linux 6.12: an int3 that nobody expects).
            command.args(["-accel", "tcg", "-cpu", "max", "-smp", "1"]);
        }
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
            .args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]);
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

/// The machine has closed its output.
fn finish(child: &mut Child, ended: bool) -> Result<()> {
    let status = child.wait()?;
    if !status.success() {
        bail!("qemu failed ({status})");
    }
    if !ended {
        bail!("the machine ended before the tests did");
    }
    Ok(())
}

/// Whether this process may use KVM.
fn has_kvm() -> bool {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok()
}
