//! The UDP sockets that reach no backend of their frontend, by what they remember.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use shunt_common::{
    V4, V6,
    socket::{Endpoint, Pair},
};

use crate::{
    maps::family::FromIp as _,
    sweep::{
        covered::Covered,
        frontends::Frontends,
        generations::Generations,
        message::{Kind, Socket},
        moving::Lost,
    },
};

/// Memory of UDP sockets: by the socket's cookie and the peer that it has if the pair counts, the frontend and whether
/// the backend is gone. A socket may remember two pairs, and is connected to one of them.
#[derive(Debug)]
pub(crate) struct Memory(HashMap<(u64, SocketAddr), (SocketAddr, bool)>);

impl Memory {
    /// Returns it, of the pairs that the kernel lists. Of two pairs with one peer the first is the last that was made.
    pub(crate) fn new(remembered: Vec<(u64, Pair)>, generations: &Generations) -> Self {
        let mut memory = HashMap::with_capacity(remembered.len());
        for (cookie, pair) in remembered {
            memory
                .entry((cookie, address(&pair.peer)))
                .or_insert_with(|| (address(&pair.frontend), generations.is_gone(&pair)));
        }
        Self(memory)
    }

    /// Returns true if a pair's backend is gone.
    pub(crate) fn has_gone(&self) -> bool {
        self.0.values().any(|(_, is_gone)| *is_gone)
    }

    /// Returns the socket's frontend, if its pair's backend is gone.
    pub(crate) fn gone(&self, socket: &Socket) -> Option<SocketAddr> {
        match self.0.get(&(socket.id.cookie(), socket.peer)) {
            Some((frontend, true)) => Some(*frontend),
            _ => None,
        }
    }

    /// Returns true if the socket's peer is that of a pair.
    fn has(&self, socket: &Socket) -> bool {
        self.0.contains_key(&(socket.id.cookie(), socket.peer))
    }
}

/// The sockets that are connected to a frontend itself, since they are older than it.
#[derive(Debug)]
pub(crate) struct Older {
    frontends: Frontends,
    /// The cookies of those that were connected anew, and stayed where they were.
    tried: Mutex<HashSet<u64>>,
}

impl Older {
    /// Over these frontends.
    pub(crate) fn new(frontends: Frontends) -> Self {
        Self {
            frontends,
            tried: Mutex::default(),
        }
    }

    /// Returns true if the socket is one, in one of the cgroups that are `covered`.
    pub(crate) fn has(&self, socket: &Socket, memory: &Memory, covered: &Covered) -> bool {
        !memory.has(socket) && covered.has(socket.cgroup) && self.frontends.serve(socket.peer)
    }

    /// Returns those of the sockets that a sweep has found that the program did not leave where they were before.
    pub(crate) fn untried(&self, mut found: Vec<Lost>) -> Vec<Lost> {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let cookies: HashSet<u64> = found.iter().map(Lost::cookie).collect();
        // A socket that is not found has moved, or its frontend is gone.
        tried.retain(|cookie| cookies.contains(cookie));
        found.retain(|lost| !tried.contains(&lost.cookie()));
        found
    }

    /// Notes a socket that was connected anew.
    pub(crate) fn note(&self, lost: &Lost) {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.insert(lost.cookie());
    }
}

/// Returns an address and port as the kernel's lists have it: one of IPv4 is not mapped.
pub(crate) fn address(endpoint: &Endpoint) -> SocketAddr {
    let Endpoint { address, port } = endpoint;
    let ip = match address.v4() {
        Some(address) => V4::ip(address),
        None => V6::ip(address.v6()),
    };
    SocketAddr::new(ip, u16::from_be(*port))
}

/// A socket that is to be connected to `frontend` anew.
pub(crate) fn lost(socket: &Socket, kind: Kind, frontend: SocketAddr) -> Lost {
    Lost {
        kind,
        id: socket.id,
        inode: socket.inode,
        frontend,
    }
}
