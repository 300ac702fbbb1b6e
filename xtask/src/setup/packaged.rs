//! Programs of Debian's packages: the user's own, or else fetched and unpacked in cargo's folder. Nothing is
//! installed.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::fetch::{Download, fetch};
use crate::{process, workspace};

/// A program, and the package that has it at `usr/bin`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packaged<'a> {
    /// The name of the program's file, and of the folder where it is unpacked.
    pub(super) program: &'a str,
    /// The variable that names a binary of the user's.
    pub(super) variable: &'a str,
    pub(super) package: Download<'a>,
}

impl Packaged<'_> {
    /// Makes sure that there is the program: the one that the variable names, the one of the search path, or
    /// the one in cargo's folder. Returns its binary. Tests look in the same order.
    ///
    /// # Errors
    ///
    /// If the variable names none, or the package cannot be fetched.
    pub(super) fn ensure(self) -> Result<PathBuf> {
        let Self {
            program,
            variable,
            package,
        } = self;
        if let Some(own) = self.own(env::var_os(variable), env::var_os("PATH"))? {
            return Ok(own);
        }
        let folder = workspace::output(program)?;
        let unpacked = folder.join("unpacked");
        let binary = unpacked.join("usr/bin").join(program);
        if binary.exists() {
            return Ok(binary);
        }
        let file = folder.join("package.deb");
        fetch(package, &file)?;
        let new = folder.join("unpacked.new");
        if new.exists() {
            fs::remove_dir_all(&new).with_context(|| format!("cannot remove {}", new.display()))?;
        }
        fs::create_dir_all(&new).with_context(|| format!("cannot make {}", new.display()))?;
        unpack(&file, &new, program)?;
        fs::rename(&new, &unpacked)
            .with_context(|| format!("cannot make {}", unpacked.display()))?;
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        Ok(binary)
    }

    /// Finds the user's own program, by the variable and the search path.
    fn own(self, variable: Option<OsString>, path: Option<OsString>) -> Result<Option<PathBuf>> {
        if let Some(given) = variable.map(PathBuf::from) {
            if !given.is_file() {
                bail!(
                    "{} names {}, which is no file",
                    self.variable,
                    given.display()
                );
            }
            return Ok(Some(given));
        }
        let folders = path.unwrap_or_default();
        Ok(env::split_paths(&folders)
            .map(|folder| folder.join(self.program))
            .find(|program| program.is_file()))
    }
}

/// Unpacks the program of a package of Debian's, on any distribution.
fn unpack(package: &Path, to: &Path, program: &str) -> Result<()> {
    // It is an archive of `ar`, with one of `tar` inside.
    let script = match process::output(Command::new("dpkg-deb").arg("--version")) {
        Ok(_) => "dpkg-deb --fsys-tarfile \"$0\" | tar -x -C \"$1\" \"$2\"",
        Err(_) => "ar p \"$0\" data.tar.xz | tar -xJ -C \"$1\" \"$2\"",
    };
    process::run(
        Command::new("sh")
            .args(["-ec", script])
            .args([package.as_os_str(), to.as_os_str()])
            .arg(OsStr::new(&format!("./usr/bin/{program}"))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::fetch::Sum;

    const CONSUL: Packaged<'_> = Packaged {
        program: "consul",
        variable: "SHUNT_CONSUL",
        package: Download {
            name: "Consul",
            sum: Sum::Sha256(""),
            urls: &[],
        },
    };

    #[test]
    fn the_users_program_comes_before_the_fetched_one() {
        let folder = env::temp_dir().join(format!("shunt-consul-{}", std::process::id()));
        let [given, found] = ["given", "bin/consul"].map(|name| folder.join(name));
        fs::create_dir_all(folder.join("bin")).unwrap();
        for file in [&given, &found] {
            fs::write(file, "").unwrap();
        }
        let path = || Some(env::join_paths(["/nonexistent".into(), folder.join("bin")]).unwrap());
        let variable = || Some(given.clone().into_os_string());
        let own = |variable, path| CONSUL.own(variable, path);
        assert_eq!(own(variable(), path()).unwrap(), Some(given.clone()));
        assert_eq!(own(None, path()).unwrap(), Some(found));
        assert_eq!(own(None, Some("/nonexistent".into())).unwrap(), None);
        let error = own(Some("/nonexistent".into()), path()).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.to_string().contains("/nonexistent, which is no file"));
    }
}
