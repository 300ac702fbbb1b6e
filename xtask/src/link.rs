//! Linking of the agent in an image, whose size every node pays for.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::workspace;

/// Keeps identical functions once, and packs relocations (`DT_RELR`): 2 MB of 33.
///
/// The first needs lld, which rustup's compilers link with, and the second glibc 2.36. An image brings the C library
/// of the machine that made it.
const SMALLER: [&str; 2] = ["-C", "link-arg=-Wl,--icf=all,-z,pack-relative-relocs"];

/// A program of which nothing but its start matters.
const PROBE: &str = "fn main() {}\n";

/// Returns the compiler's arguments for a smaller binary; none if the linker or the C library of this machine refuses
/// them.
///
/// # Errors
///
/// If the probe cannot be written.
pub(crate) fn smaller(root: &Path) -> Result<&'static [&'static str]> {
    Ok(if starts(root, &SMALLER)? {
        &SMALLER
    } else {
        &[]
    })
}

/// Returns whether a program that is built with these arguments starts.
fn starts(root: &Path, arguments: &[&str]) -> Result<bool> {
    let folder = workspace::output("probe")?;
    let failed = || format!("cannot write the probe in {}", folder.display());
    let (source, program) = (folder.join("probe.rs"), folder.join("probe"));
    fs::create_dir_all(&folder).with_context(failed)?;
    fs::write(&source, PROBE).with_context(failed)?;
    let succeeds = |command: &mut Command| {
        let output = command.output();
        output.is_ok_and(|output| output.status.success())
    };
    // The compiler that cargo takes in this folder.
    let mut compiler = Command::new("rustc");
    compiler.current_dir(root).args(arguments);
    compiler.arg("-o").arg(&program).arg(&source);
    Ok(succeeds(&mut compiler) && succeeds(&mut Command::new(&program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_fails_with_arguments_that_the_linker_refuses() {
        let root = workspace::root().unwrap();
        assert!(starts(&root, &[]).unwrap());
        let refused = ["-C", "link-arg=-Wl,--no-such-argument"];
        assert!(!starts(&root, &refused).unwrap());
    }
}
