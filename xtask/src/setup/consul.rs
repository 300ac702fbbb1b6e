//! The real Consul, for the demo and the tests of the source that follows it: the user's own, or else
//! Debian 11's package, fetched and unpacked in cargo's folder. Nothing is installed.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::fetch::{Download, Sum, fetch};
use crate::{process, workspace};

/// The variable that names a binary of the user's.
const VARIABLE: &str = "SHUNT_CONSUL";

/// The tested version. Later releases of Debian have no Consul, and Debian's servers drop old packages, so
/// there are three places.
const PACKAGE: Download<'_> = Download {
    name: "Consul",
    sum: Sum::Sha256("e4e888bba104daba1d9161f49bfc52649a7e4efd45b1a7ead5bc54f2cb9c89d9"),
    urls: &[
        "http://deb.debian.org/debian/pool/main/c/consul/consul_1.8.7+dfsg1-2+b3_amd64.deb",
        "http://archive.debian.org/debian/pool/main/c/consul/consul_1.8.7+dfsg1-2+b3_amd64.deb",
        "http://snapshot.debian.org/archive/debian/20220601T000000Z/pool/main/c/consul/\
         consul_1.8.7+dfsg1-2+b3_amd64.deb",
    ],
};

/// Makes sure that there is a Consul: the one that `SHUNT_CONSUL` names, the one of the search path, or
/// the one in cargo's folder. Returns its binary. Tests look in the same order.
///
/// # Errors
///
/// If the variable names none, or Consul cannot be fetched.
pub(crate) fn ensure() -> Result<PathBuf> {
    if let Some(own) = own(env::var_os(VARIABLE), env::var_os("PATH"))? {
        return Ok(own);
    }
    let folder = workspace::output("consul")?;
    let unpacked = folder.join("unpacked");
    let binary = unpacked.join("usr/bin/consul");
    if binary.exists() {
        return Ok(binary);
    }
    let package = folder.join("consul.deb");
    fetch(PACKAGE, &package)?;
    let new = folder.join("unpacked.new");
    if new.exists() {
        fs::remove_dir_all(&new).with_context(|| format!("cannot remove {}", new.display()))?;
    }
    fs::create_dir_all(&new).with_context(|| format!("cannot make {}", new.display()))?;
    unpack(&package, &new)?;
    fs::rename(&new, &unpacked).with_context(|| format!("cannot make {}", unpacked.display()))?;
    fs::remove_file(&package).with_context(|| format!("cannot remove {}", package.display()))?;
    Ok(binary)
}

/// Finds the user's own Consul, by the variable and the search path.
fn own(variable: Option<OsString>, path: Option<OsString>) -> Result<Option<PathBuf>> {
    if let Some(given) = variable.map(PathBuf::from) {
        if !given.is_file() {
            bail!("{VARIABLE} names {}, which is no file", given.display());
        }
        return Ok(Some(given));
    }
    let folders = path.unwrap_or_default();
    Ok(env::split_paths(&folders)
        .map(|folder| folder.join("consul"))
        .find(|program| program.is_file()))
}

/// Unpacks a package of Debian's, on any distribution.
fn unpack(package: &Path, to: &Path) -> Result<()> {
    if process::output(Command::new("dpkg-deb").arg("--version")).is_ok() {
        return process::run(
            Command::new("dpkg-deb")
                .arg("--extract")
                .arg(package)
                .arg(to),
        );
    }
    // It is an archive of `ar`, with one of `tar` inside.
    process::run(
        Command::new("sh")
            .args(["-ec", "ar p \"$0\" data.tar.xz | tar -xJ -C \"$1\""])
            .arg(package)
            .arg(to),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_consul_comes_before_the_fetched_one() {
        let folder = env::temp_dir().join(format!("shunt-consul-{}", std::process::id()));
        let [given, found] = ["given", "bin/consul"].map(|name| folder.join(name));
        fs::create_dir_all(folder.join("bin")).unwrap();
        for file in [&given, &found] {
            fs::write(file, "").unwrap();
        }
        let path = || Some(env::join_paths(["/nonexistent".into(), folder.join("bin")]).unwrap());
        let variable = || Some(given.clone().into_os_string());
        assert_eq!(own(variable(), path()).unwrap(), Some(given.clone()));
        assert_eq!(own(None, path()).unwrap(), Some(found));
        assert_eq!(own(None, Some("/nonexistent".into())).unwrap(), None);
        let error = own(Some("/nonexistent".into()), path()).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.to_string().contains("/nonexistent, which is no file"));
    }
}
