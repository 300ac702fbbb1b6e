//! The processes that hold sockets.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::Path,
};

use crate::sys::process_socket::Descriptor;

/// Directory of the processes of the agent's process namespace: all of the host's, unless the agent's container
/// does not share them (`hostPID`).
const PROCESSES: &str = "/proc";

/// Finds a descriptor of each socket, by the inodes of the sockets. One that no process seems to hold is left out: it was
/// closed, or the agent does not see its process, or may not look into it (`CAP_SYS_PTRACE`).
///
/// # Errors
///
/// If the processes cannot be listed.
pub(crate) fn holders(inodes: &HashSet<u32>) -> io::Result<HashMap<u32, Descriptor>> {
    let mut found = HashMap::new();
    for process in fs::read_dir(PROCESSES)? {
        if found.len() == inodes.len() {
            break;
        }
        // One that ends meanwhile holds nothing any more.
        let Ok(process) = process else { continue };
        let Some(number) = number(&process.path()) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        for descriptor in descriptors.map_while(Result::ok) {
            let path = descriptor.path();
            if let Some(inode) = socket_at(&path)
                && inodes.contains(&inode)
                && let Some(descriptor) = self::number(&path)
            {
                found.entry(inode).or_insert(Descriptor {
                    process: number,
                    number: descriptor,
                });
            }
        }
    }
    Ok(found)
}

/// Returns the number that is the last part of a path.
fn number(path: &Path) -> Option<i32> {
    path.file_name()?.to_str()?.parse().ok()
}

/// Returns the inode of the socket to which a descriptor in `/proc` leads (`socket:[INODE]`), as sock_diag has it: cut off
/// to 32 bits.
fn socket_at(path: &Path) -> Option<u32> {
    let target = fs::read_link(path).ok()?;
    let inode = target
        .to_str()?
        .strip_prefix("socket:[")?
        .strip_suffix(']')?;
    Some(inode.parse::<u64>().ok()? as u32)
}

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, os::fd::AsRawFd as _, process};

    use super::*;

    #[test]
    fn a_socket_is_found_by_its_inode() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let number = socket.as_raw_fd();
        let inode = socket_at(Path::new(&format!("/proc/self/fd/{number}"))).unwrap();
        let found = holders(&[inode].into()).unwrap();
        let process = process::id().cast_signed();
        assert_eq!(found, [(inode, Descriptor { process, number })].into());
    }
}
