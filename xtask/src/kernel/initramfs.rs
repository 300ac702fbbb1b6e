//! The file system that the machine's kernel begins with: enough to reach the host's files.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use super::packages::Kernel;
use crate::process;

/// The first process.
const INIT: &str = include_str!("init.sh");

/// The modules that lead to the host's files, where they are modules. All others come from there.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// Writes it to `path`, with `job` as the script that the first process runs.
pub(super) fn write(path: &Path, kernel: &Kernel, busybox: &Path, job: &str) -> Result<()> {
    let root = path.with_extension("root");
    for folder in [
        "bin",
        "sbin",
        "proc",
        "sys",
        "dev",
        "host",
        "rw",
        "root",
        "lib/modules",
    ] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::copy(busybox, root.join("bin/busybox"))?;
    symlink("../bin/busybox", root.join("sbin/modprobe"))?;
    fs::write(root.join("job"), job)?;
    let init = root.join("init");
    fs::write(&init, INIT)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;

    let modules = kernel.modules.join(&kernel.release);
    let there = root.join("lib/modules").join(&kernel.release);
    fs::create_dir_all(&there)?;
    for index in ["modules.dep", "modules.alias", "modules.symbols"] {
        fs::copy(modules.join(index), there.join(index))?;
    }
    let dependencies = fs::read_to_string(modules.join("modules.dep"))?;
    for name in MODULES
        .iter()
        .flat_map(|module| files(&dependencies, module))
    {
        let file = there.join(name);
        fs::create_dir_all(file.parent().context("a module is in a folder")?)?;
        fs::copy(modules.join(name), &file).with_context(|| format!("cannot copy {name}"))?;
    }
    pack(&root, path, busybox)
}

/// The file of a module and those of the modules that it depends on, as `modules.dep` has them;
/// none if it is part of the kernel.
fn files<'a>(dependencies: &'a str, module: &str) -> Vec<&'a str> {
    dependencies
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(file, _)| {
            let name = file.rsplit('/').next().unwrap_or_default();
            name.split('.').next() == Some(module)
        })
        .map(|(file, others)| {
            std::iter::once(file)
                .chain(others.split_whitespace())
                .collect()
        })
        .unwrap_or_default()
}

/// Packs a folder as the kernel reads it.
fn pack(root: &Path, path: &Path, busybox: &Path) -> Result<()> {
    let mut find = Command::new("find")
        .arg(".")
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run `find`")?;
    let names = find.stdout.take().context("`find` has no output")?;
    process::run(
        Command::new(busybox)
            .args(["cpio", "-o", "-H", "newc"])
            .current_dir(root)
            .stdin(names)
            .stdout(fs::File::create(path)?)
            .stderr(Stdio::null()),
    )?;
    if !find.wait()?.success() {
        bail!("`find` failed in {}", root.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_with_those_it_depends_on() {
        let dependencies = "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs.ko.xz\n\
                            kernel/net/9p/9pnet.ko.xz:\n";
        assert_eq!(
            files(dependencies, "9p"),
            [
                "kernel/fs/9p/9p.ko.xz",
                "kernel/net/9p/9pnet.ko.xz",
                "kernel/fs/netfs.ko.xz"
            ]
        );
        assert_eq!(files(dependencies, "9pnet"), ["kernel/net/9p/9pnet.ko.xz"]);
        assert_eq!(files(dependencies, "virtio_pci"), [""; 0], "built in");
    }
}
