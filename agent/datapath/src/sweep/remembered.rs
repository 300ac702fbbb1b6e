//! The pairs that connected sockets remember, as the kernel lists them.
//!
//! Sock_diag lists TCP sockets together with their storage. It does not give that of UDP sockets, so
//! the kernel's iterator over these runs a program of ours, which writes it.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use aya::{
    Btf, Ebpf,
    maps::Map,
    programs::{Iter, ProgramFd},
};
use bytemuck::{Pod, Zeroable};
use shunt_common::{
    registry::{SOCKETS_BEFORE, SOCKETS_CONNECTED},
    socket::{Connected, Pair},
};

use crate::{
    error::DatapathError,
    sweep::{message::kinds, sock_diag::SockDiag, unlisted::Unlisted},
    sys::socket_iterator::SocketIterator,
};

/// The program that writes the storage of UDP sockets.
const UDP_PROGRAM: &str = "sock_udp";

/// The entry that it writes for a socket.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Entry {
    cookie: u64,
    connected: Connected,
}

/// The tables with the pairs of connected sockets.
#[derive(Debug)]
pub(crate) struct Tables([OwnedFd; 2]);

/// The ways to the pairs that sockets remember, or the reason why there is none.
#[derive(Debug)]
pub(crate) struct Remembered {
    udp: Result<SocketIterator, Unlisted>,
    tcp: Result<Tables, Unlisted>,
}

impl Remembered {
    /// Opens the ways to the storage of the loaded object. A kernel without them translates all the
    /// same.
    pub(crate) fn open(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let tables = Tables::open(ebpf)?;
        Ok(Self {
            udp: udp(ebpf).map_err(Unlisted::Udp),
            tcp: listed(libc::IPPROTO_TCP, &tables.all())
                .map(|()| tables)
                .map_err(|error| Unlisted::Tcp(error.to_string())),
        })
    }

    /// Returns the cookie and the pair of each UDP socket in the calling thread's network namespace, that of its last
    /// connection first; `None` if they cannot be listed.
    pub(crate) fn of_udp(&self) -> Option<io::Result<Vec<(u64, Pair)>>> {
        self.udp.as_ref().ok().map(read)
    }

    /// Returns the tables with which TCP sockets are listed, if they can be.
    pub(crate) fn of_tcp(&self) -> Option<&Tables> {
        self.tcp.as_ref().ok()
    }

    /// Returns the reasons why UDP and TCP sockets cannot be listed; `None` for those that can.
    pub(crate) fn unlisted(&self) -> [Option<&Unlisted>; 2] {
        [self.udp.as_ref().err(), self.tcp.as_ref().err()]
    }
}

impl Tables {
    fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        let open = |name| {
            let Some(Map::SkStorage(map)) = ebpf.map(name) else {
                return Err(DatapathError::Missing(name));
            };
            let descriptor = map.fd().as_fd().try_clone_to_owned();
            descriptor.map_err(|source| DatapathError::Mapping { name, source })
        };
        Ok(Self([
            open(SOCKETS_CONNECTED.name)?,
            open(SOCKETS_BEFORE.name)?,
        ]))
    }

    /// Borrows them all.
    pub(crate) fn all(&self) -> [BorrowedFd<'_>; 2] {
        let Self(tables) = self;
        tables.each_ref().map(OwnedFd::as_fd)
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

/// Makes sure that sock_diag lists the sockets of a protocol, by a request that matches no socket.
fn listed(protocol: i32, tables: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut diag = SockDiag::open()?;
    kinds(protocol)
        .into_iter()
        .try_for_each(|kind| diag.dump(kind, 0, tables, |_| {}))
}

/// Opens the iterator over UDP sockets. Sock_diag has to list them too, to name them when they are
/// destroyed.
fn udp(ebpf: &mut Ebpf) -> Result<SocketIterator, String> {
    let program = load(ebpf, UDP_PROGRAM, "udp").map_err(|error| error.to_string())?;
    let iterator = SocketIterator::of_udp(program.as_fd()).map_err(|error| error.to_string())?;
    listed(libc::IPPROTO_UDP, &[]).map_err(|error| error.to_string())?;
    Ok(iterator)
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
