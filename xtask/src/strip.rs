//! Binaries without their symbols, as they are shipped.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::process;

/// Copies a binary without its symbols and debug information. The kernel programs are data of the
/// binary and stay.
///
/// binutils does it, which each compiler's linker needs anyway.
///
/// # Errors
///
/// If `from` is no binary, or there is no `strip`.
pub(crate) fn strip(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    process::run(
        Command::new("strip")
            .args(["--strip-all", "-o"])
            .arg(to)
            .arg(from),
    )
    .context("symbols are removed by `strip`, which the package binutils has")
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn a_stripped_program_is_smaller_and_still_starts() {
        let folder = env::temp_dir().join(format!("shunt-strip-{}", std::process::id()));
        let this = env::current_exe().unwrap();
        let stripped = folder.join("inner/stripped");
        strip(&this, &stripped).unwrap();
        let length = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(length(&stripped) < length(&this) / 2);
        process::output(Command::new(&stripped).arg("--list")).unwrap();
        let error = strip(Path::new("/etc/hostname"), &stripped).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert!(format!("{error:#}").contains("binutils"), "{error:#}");
    }
}
