//! What connected sockets remember, as the kernel's iterators tell.

use std::{io, os::fd::AsFd as _};

use aya::{
    Btf, Ebpf,
    maps::Map,
    programs::{Iter, ProgramFd},
};
use bytemuck::{Pod, Zeroable};
use shunt_common::{
    registry,
    socket::{Connected, Pair},
};
use tracing::debug;

use crate::{error::DatapathError, sys::socket_iterator::SocketIterator};

/// The programs that write what sockets have in storage: one of all sockets that have any, and one
/// of UDP sockets.
const STORAGE_PROGRAM: &str = "sock_storage";
const UDP_PROGRAM: &str = "sock_udp";

/// What they write of a socket.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Entry {
    cookie: u64,
    connected: Connected,
}

/// The iterators over sockets.
///
/// That over storage goes through lists of which there are as many as CPUs, from the beginning of
/// one for each 500 sockets that it tells of: with many sockets it takes long. Where the kernel has
/// one over its table of UDP sockets, whose lists are short, that is used for them.
#[derive(Debug)]
pub(crate) struct Remembered {
    /// Or why there is none.
    storage: Result<SocketIterator, String>,
    udp: Option<SocketIterator>,
}

impl Remembered {
    /// Of the loaded object. A kernel without iterators translates all the same.
    pub(crate) fn open(ebpf: &mut Ebpf) -> Self {
        Self {
            storage: storage_iterator(ebpf).map_err(|error| error.to_string()),
            udp: udp_iterator(ebpf)
                .inspect_err(|error| debug!("UDP sockets are found by their storage: {error}"))
                .ok(),
        }
    }

    /// Of the UDP sockets in the calling thread's network namespace, and maybe of others: the cookie
    /// and the pair.
    pub(crate) fn of_udp(&self) -> io::Result<Vec<(u64, Pair)>> {
        self.udp.as_ref().map_or_else(|| self.of_all(), read)
    }

    /// The same of all sockets, whatever became of them since.
    pub(crate) fn of_all(&self) -> io::Result<Vec<(u64, Pair)>> {
        let storage = self.storage.as_ref();
        read(storage.map_err(|why| io::Error::other(why.clone()))?)
    }
}

fn read(iterator: &SocketIterator) -> io::Result<Vec<(u64, Pair)>> {
    let written = iterator.read()?;
    let pairs = written
        .chunks_exact(size_of::<Entry>())
        .filter_map(|bytes| {
            let Entry { cookie, connected } = bytemuck::pod_read_unaligned(bytes);
            Some((cookie, connected.pair()?))
        });
    Ok(pairs.collect())
}

/// The iterator over the storage of connected sockets.
fn storage_iterator(ebpf: &mut Ebpf) -> Result<SocketIterator, DatapathError> {
    let program = load(ebpf, STORAGE_PROGRAM, "bpf_sk_storage_map")?;
    let name = registry::SOCKETS_CONNECTED.name;
    let Some(Map::SkStorage(map)) = ebpf.map(name) else {
        return Err(DatapathError::Missing(name));
    };
    SocketIterator::of_map(program.as_fd(), map.fd().as_fd())
        .map_err(|source| DatapathError::Mapping { name, source })
}

/// The iterator over UDP sockets.
fn udp_iterator(ebpf: &mut Ebpf) -> Result<SocketIterator, DatapathError> {
    let program = load(ebpf, UDP_PROGRAM, "udp")?;
    SocketIterator::of_udp(program.as_fd()).map_err(|source| DatapathError::Mapping {
        name: UDP_PROGRAM,
        source,
    })
}

/// Loads the program of an iterator over `target`.
fn load(ebpf: &mut Ebpf, name: &'static str, target: &str) -> Result<ProgramFd, DatapathError> {
    let refused = |source| DatapathError::Program { name, source };
    let program = ebpf.program_mut(name).ok_or(DatapathError::Missing(name))?;
    let program: &mut Iter = program.try_into().map_err(refused)?;
    let btf = Btf::from_sys_fs().map_err(|error| refused(error.into()))?;
    program.load(target, &btf).map_err(refused)?;
    let program = program.fd().and_then(|fd| Ok(fd.try_clone()?));
    program.map_err(refused)
}
