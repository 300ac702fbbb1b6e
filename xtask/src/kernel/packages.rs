//! Debian's packages, fetched and unpacked in a folder of cargo's. Nothing is installed.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{process, setup::debian, workspace};

/// The folder of what was fetched: a folder a package, whole or not there.
pub(super) struct Store {
    folder: PathBuf,
}

/// An unpacked kernel with its modules.
pub(super) struct Kernel {
    /// Output of `uname -r` there.
    pub(super) release: String,
    /// The compressed kernel.
    pub(super) image: PathBuf,
    /// The folder that is `/lib/modules` there.
    pub(super) modules: PathBuf,
}

/// A qemu for machines like this one.
pub(super) enum Qemu {
    /// The host's.
    Installed,
    /// One that was unpacked in this folder.
    Unpacked(PathBuf),
}

const QEMU: &str = "qemu-system-x86_64";

impl Store {
    /// The folder, made if there is none.
    pub(super) fn open() -> Result<Self> {
        let folder = workspace::output("kernels")?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// An empty folder for what one run needs.
    pub(super) fn run(&self, version: &str) -> Result<PathBuf> {
        let folder = self.folder.join(format!("run-{version}"));
        new_folder(&folder)?;
        Ok(folder)
    }

    /// The newest kernel of a version such as 6.1 that apt knows.
    pub(super) fn kernel(&self, version: &str) -> Result<Kernel> {
        let mut package = newest_kernel(version)?;
        if package.is_none() {
            debian::update();
            package = newest_kernel(version)?;
        }
        let Some(package) = package else {
            bail!(
                "apt knows no package linux-image-{version}.…-amd64: it has to be in the sources \
                 of this host, as Linux 6.1 and 6.12 are in those of Debian 12 with its security \
                 updates"
            );
        };
        let busybox = self.busybox()?;
        let release = package.trim_start_matches("linux-image-").to_owned();
        let folder = self.unpacked(&package, |folder| {
            download(&package, folder)?;
            unpack(folder)?;
            process::quiet_step(
                "kernel: find what the modules depend on",
                Command::new(busybox)
                    .args(["depmod", "-b"])
                    .arg(folder)
                    .arg(&release),
            )
        })?;
        Ok(Kernel {
            image: folder.join(format!("boot/vmlinuz-{release}")),
            modules: folder.join("lib/modules"),
            release,
        })
    }

    /// A shell and what goes with it, in one file without libraries.
    pub(super) fn busybox(&self) -> Result<PathBuf> {
        let package = "busybox-static";
        let folder = self.unpacked(package, |folder| {
            download(package, folder)?;
            unpack(folder)
        })?;
        Ok(folder.join("bin/busybox"))
    }

    /// The host's qemu, or else Debian's with the libraries that the host lacks.
    pub(super) fn qemu(&self) -> Result<Qemu> {
        if process::output(Command::new(QEMU).arg("--version")).is_ok() {
            return Ok(Qemu::Installed);
        }
        let package = "qemu-system-x86";
        let folder = self.unpacked(package, |folder| {
            let archives = folder.display();
            fs::create_dir(folder.join("partial"))?;
            process::quiet_step(
                "kernel: fetch qemu and the libraries that are missing here",
                debian::apt().args([
                    "install",
                    "--yes",
                    "--no-install-recommends",
                    "--download-only",
                    "-oDebug::NoLocking=1",
                    "-oAPT::Sandbox::User=root",
                    &format!("-oDir::Cache::archives={archives}"),
                    package,
                ]),
            )?;
            unpack(folder)
        })?;
        Ok(Qemu::Unpacked(folder))
    }

    /// The folder `name`, filled by `fill` if it is not there yet.
    fn unpacked(&self, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        if folder.exists() {
            return Ok(folder);
        }
        let new = self.folder.join(format!("{name}.new"));
        new_folder(&new)?;
        fill(&new)?;
        fs::rename(&new, &folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }
}

impl Qemu {
    /// The command, before its arguments about a machine.
    pub(super) fn command(&self) -> Command {
        match self {
            Self::Installed => Command::new(QEMU),
            Self::Unpacked(folder) => {
                let mut command = Command::new(folder.join("usr/bin").join(QEMU));
                for data in ["usr/share/qemu", "usr/share/seabios"] {
                    command.arg("-L").arg(folder.join(data));
                }
                let mut libraries = OsString::new();
                for library in ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"] {
                    libraries.push(folder.join(library));
                    libraries.push(":");
                }
                libraries.push(env::var_os("LD_LIBRARY_PATH").unwrap_or_default());
                command.env("LD_LIBRARY_PATH", libraries);
                command
            }
        }
    }
}

fn new_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Fetches a package into a folder.
fn download(package: &str, folder: &Path) -> Result<()> {
    process::quiet_step(
        &format!("kernel: fetch {package}"),
        debian::apt()
            .current_dir(folder)
            .args(["-oAPT::Sandbox::User=root", "download", package]),
    )
}

/// Unpacks the packages in a folder there.
fn unpack(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    for path in entries.into_iter().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "deb") {
            process::run(Command::new("dpkg").arg("-x").arg(&path).arg(folder))?;
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The name of the newest kernel package of a version such as 6.1.
fn newest_kernel(version: &str) -> Result<Option<String>> {
    let prefix = format!("linux-image-{version}.");
    let names = process::output(Command::new("apt-cache").args(["pkgnames", &prefix]))?;
    let kernels = names
        .lines()
        .filter_map(|name| Some((release_order(name.strip_prefix(&prefix)?)?, name)));
    Ok(kernels.max().map(|(_, name)| name.to_owned()))
}

/// Returns the order of the end of a kernel package's name, `0-56-amd64` or `117+deb12-amd64`; `None`
/// if it is not Debian's usual kernel but a variant, or holds something else.
fn release_order(end: &str) -> Option<Vec<u32>> {
    let mut parts = end.strip_suffix("-amd64")?.split('-');
    let (patch, _) = parts.next()?.split_once('+').unwrap_or((end, ""));
    let patch = patch.split('-').next()?;
    std::iter::once(patch)
        .chain(parts)
        .map(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_the_usual_kernels_is_taken() {
        let ends = [
            "0-9-amd64",
            "0-56-amd64",
            "0-57-cloud-amd64",
            "0-58-rt-amd64",
            "0-59-amd64-dbg",
            "0-60-amd64-unsigned",
        ];
        let newest = ends
            .into_iter()
            .filter_map(|end| Some((release_order(end)?, end)))
            .max();
        assert_eq!(newest, Some((vec![0, 56], "0-56-amd64")));
        assert!(release_order("117+deb12-amd64") > release_order("99+deb12-amd64"));
    }
}
