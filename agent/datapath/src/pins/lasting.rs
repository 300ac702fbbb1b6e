//! A check that pins outlive the agent: a bpf file system that only the agent's own mounts have ends with it.

use std::{fs, io, path::Path};

use nix::sys::stat::{major, minor, stat};
use procfs_core::{
    FromRead as _,
    process::{MountInfos, MountOptFields},
};

use crate::pins::error::PinError;

/// The mounts of the first process: those of the host, or of a container that has process ids of its own.
const OF_FIRST: &str = "/proc/1/mountinfo";
const OF_OURS: &str = "/proc/self/mountinfo";

const PROCESS_IDS: &str = "/proc/self/ns/pid";
/// Target of that on the host (`PROC_PID_INIT_INO` of include/linux/proc_ns.h).
const OF_HOST: &str = "pid:[4026531836]";

/// Refuses a bpf file system, which is at `place`, if it ends with the agent. `is_new`: the agent has mounted it.
///
/// What is hidden from the agent (`hidepid`, `ProtectProc=`) is no reason to refuse anything.
pub(super) fn check(place: &Path, is_new: bool) -> Result<(), PinError> {
    let device = stat(place)
        .map_err(io::Error::from)
        .map_err(PinError::io("looking at", place))?
        .st_dev;
    let device = format!("{}:{}", major(device), minor(device));
    let Ok(of_first) = MountInfos::from_file(OF_FIRST) else {
        return Ok(());
    };
    let is_known = of_first.iter().any(|mount| mount.majmin == device);
    // A container's first process may be the agent itself, which shows nothing. Its mounts are the host's as well
    // where they are shared, and those that were there before the agent were given to it.
    let is_kept = !is_new || has_process_ids_of_host() || is_shared(&device);
    if is_known && is_kept {
        return Ok(());
    }
    Err(PinError::Vanishing(place.to_owned()))
}

/// Returns whether the first process that the agent sees is the host's, or true if that cannot be read.
fn has_process_ids_of_host() -> bool {
    fs::read_link(PROCESS_IDS).map_or(true, |namespace| namespace == Path::new(OF_HOST))
}

/// Returns whether what is mounted of this device is mounted elsewhere as well.
fn is_shared(device: &str) -> bool {
    let is_shared = |mounts: MountInfos| {
        mounts.iter().any(|mount| {
            let mut marks = mount.opt_fields.iter();
            mount.majmin == device && marks.any(|mark| matches!(mark, MountOptFields::Shared(_)))
        })
    };
    MountInfos::from_file(OF_OURS).map_or(true, is_shared)
}
