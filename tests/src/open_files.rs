//! The limit of this process's open files.

use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit, setrlimit},
};

/// Lets this process have so many files open, and some more.
///
/// # Errors
///
/// When the kernel does not allow it.
pub fn make_room_for_files(files: usize) -> Result<(), Errno> {
    let wanted = files as u64 + 1000;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted))?;
    }
    Ok(())
}
