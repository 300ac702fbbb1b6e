//! Limit of the files that this process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit that the process was started with to the one that it may have: each interface
/// takes two links, and so two files. Returns the limit.
///
/// # Errors
///
/// If the kernel refuses.
pub(crate) fn raise_open_files() -> nix::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = raise_open_files().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}
