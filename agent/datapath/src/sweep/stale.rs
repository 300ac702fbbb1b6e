//! Which sockets are on a backend that is gone, and what becomes of them.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use aya::Ebpf;
use nix::errno::Errno;
use shunt_common::{
    V4, V6,
    socket::{Endpoint, Pair},
};
use thiserror::Error;

use crate::{
    error::DatapathError,
    maps::family::FromIp as _,
    sweep::{
        bell::Bell,
        generations::Generations,
        message::{Kind, Socket, SocketId},
        remembered::Remembered,
        sock_diag::{BATCH, SockDiag},
    },
};

/// States of a socket (`net/tcp_states.h`) in which a process may wait for its peer. A connected
/// UDP socket is in the first.
const ESTABLISHED: u32 = 1 << 1;
const SYN_SENT: u32 = 1 << 2;
const FIN_WAIT1: u32 = 1 << 4;
const FIN_WAIT2: u32 = 1 << 5;
const CLOSE_WAIT: u32 = 1 << 8;

/// The connected sockets of the agent's network namespace that asked a frontend, as they are found
/// when backends have left.
#[derive(Debug)]
pub struct StaleSockets {
    remembered: Remembered,
    generations: Generations,
    pub(crate) bell: Bell,
    destroyed_udp: AtomicU64,
    destroyed_tcp: AtomicU64,
    /// Whether a TCP socket was left because its endpoint is only unready.
    has_spared: AtomicBool,
    trouble: Mutex<Option<SweepError>>,
}

/// A TCP connection to a backend that is not in the table any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleConnection {
    /// What the process asked.
    pub frontend: SocketAddr,
    /// What it is connected to.
    pub backend: SocketAddr,
}

/// Pairs, by the cookie of their socket and the peer that it has if it is connected to the pair's: of the
/// two that a socket may remember it is to one.
type Gone = HashMap<(u64, SocketAddr), Pair>;

/// Says of each connection whether its endpoint is gone from its service port, and not merely
/// unable to take new connections: the backend table has neither.
pub type IsGone = Box<dyn FnMut(Vec<StaleConnection>) -> Vec<bool> + Send>;

/// How many sockets were destroyed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Destroyed {
    /// Of UDP.
    pub udp: u64,
    /// Of TCP.
    pub tcp: u64,
}

/// Stale sockets stay.
#[derive(Debug, Error)]
pub(crate) enum SweepError {
    /// The kernel does not tell of sockets.
    #[error("the kernel does not list sockets: {0}")]
    List(io::Error),
    /// It cannot do what is needed.
    #[error("this kernel cannot destroy sockets: it was built without CONFIG_INET_DIAG_DESTROY")]
    Unsupported,
    /// It does not want to.
    #[error("the kernel does not destroy sockets: {0}")]
    Destroy(io::Error),
}

impl StaleSockets {
    /// Of the tables of the loaded object.
    pub(crate) fn open(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        Ok(Self {
            remembered: Remembered::open(ebpf),
            generations: Generations::open(ebpf)?,
            bell: Bell::default(),
            destroyed_udp: AtomicU64::new(0),
            destroyed_tcp: AtomicU64::new(0),
            has_spared: AtomicBool::new(false),
            trouble: Mutex::new(None),
        })
    }

    /// How many sockets were destroyed since the agent's start.
    pub fn destroyed(&self) -> Destroyed {
        Destroyed {
            udp: self.destroyed_udp.load(Ordering::Relaxed),
            tcp: self.destroyed_tcp.load(Ordering::Relaxed),
        }
    }

    /// Why stale sockets stay, if they do.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().map(ToString::to_string)
    }

    /// Whether a TCP socket was left at the last sweep, because its endpoint is only unready: that
    /// may change without any change of the backend table.
    pub(crate) fn has_spared(&self) -> bool {
        self.has_spared.load(Ordering::Relaxed)
    }

    /// Destroys the UDP sockets whose backend is gone, and if there is a way to tell them, the TCP
    /// sockets whose endpoint is. Gives how many those were.
    ///
    /// What the kernel lists may be something else when it is destroyed: each socket is named by
    /// its cookie, its address and its peer's, so that it is not another one, and has not connected
    /// to another peer. Listing comes before destroying, which moves sockets in the tables that are
    /// listed.
    pub(crate) fn sweep(&self, is_gone: Option<&mut IsGone>) -> Result<Destroyed, SweepError> {
        let mut destroyed = Destroyed::default();
        let gone = self.gone(self.remembered.of_udp())?;
        if !gone.is_empty() {
            let mut diag = SockDiag::open().map_err(SweepError::List)?;
            for kind in kinds(libc::IPPROTO_UDP) {
                let stale = stale(&mut diag, kind, ESTABLISHED, &gone)?;
                let stale: Vec<SocketId> = stale.into_iter().map(|(id, _)| id).collect();
                for batch in stale.chunks(BATCH) {
                    destroyed.udp += destroy(&mut diag, kind, batch, &self.destroyed_udp)?;
                }
            }
        }
        let Some(is_gone) = is_gone else {
            return Ok(destroyed);
        };
        let gone = self.gone(self.remembered.of_all())?;
        let mut spared = false;
        if !gone.is_empty() {
            let mut diag = SockDiag::open().map_err(SweepError::List)?;
            for kind in kinds(libc::IPPROTO_TCP) {
                let states = ESTABLISHED | SYN_SENT | FIN_WAIT1 | FIN_WAIT2 | CLOSE_WAIT;
                let stale = stale(&mut diag, kind, states, &gone)?;
                for batch in stale.chunks(BATCH) {
                    let connections = batch.iter().map(|(_, pair)| connection(pair)).collect();
                    let verdicts = is_gone(connections);
                    let gone = batch.iter().zip(&verdicts).filter(|(_, is_gone)| **is_gone);
                    let gone: Vec<SocketId> = gone.map(|((id, _), _)| *id).collect();
                    spared |= gone.len() < batch.len();
                    destroyed.tcp += destroy(&mut diag, kind, &gone, &self.destroyed_tcp)?;
                }
            }
        }
        self.has_spared.store(spared, Ordering::Relaxed);
        Ok(destroyed)
    }

    /// The pairs whose backend is gone.
    fn gone(&self, remembered: io::Result<Vec<(u64, Pair)>>) -> Result<Gone, SweepError> {
        let remembered = remembered.map_err(SweepError::List)?.into_iter();
        let gone = remembered.filter(|(_, pair)| self.generations.is_gone(pair));
        Ok(gone
            .map(|(cookie, pair)| ((cookie, address(&pair.peer)), pair))
            .collect())
    }

    /// Notes how a sweep went. Gives what is wrong, the first time that it is.
    pub(crate) fn note(&self, swept: Result<Destroyed, SweepError>) -> Option<String> {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match swept {
            Ok(destroyed) => {
                // A sweep that had nothing to destroy says nothing about destroying.
                let is_over = destroyed != Destroyed::default()
                    || matches!(*trouble, Some(SweepError::List(_)));
                if is_over {
                    *trouble = None;
                }
                None
            }
            Err(error) => {
                let text = error.to_string();
                let is_known = trouble
                    .as_ref()
                    .is_some_and(|known| known.to_string() == text);
                *trouble = Some(error);
                (!is_known).then_some(text)
            }
        }
    }
}

/// Sockets of a protocol, IPv4 and IPv6.
fn kinds(protocol: i32) -> [Kind; 2] {
    [libc::AF_INET, libc::AF_INET6].map(|family| Kind {
        family: family as u8,
        protocol: protocol as u8,
    })
}

/// The sockets of a kind whose pairs are among `gone`. A socket that was disconnected since, or that
/// a process connected elsewhere, has another peer than its pair.
fn stale(
    diag: &mut SockDiag,
    kind: Kind,
    states: u32,
    gone: &Gone,
) -> Result<Vec<(SocketId, Pair)>, SweepError> {
    let mut stale = Vec::new();
    diag.dump(kind, states, |Socket { id, peer }| {
        if let Some(pair) = gone.get(&(id.cookie(), peer)) {
            stale.push((id, *pair));
        }
    })
    .map_err(SweepError::List)?;
    Ok(stale)
}

fn connection(pair: &Pair) -> StaleConnection {
    StaleConnection {
        frontend: address(&pair.frontend),
        backend: address(&pair.peer),
    }
}

fn address(endpoint: &Endpoint) -> SocketAddr {
    let Endpoint { address, port } = endpoint;
    let ip = match address.v4() {
        Some(address) => V4::ip(address),
        None => V6::ip(address.v6()),
    };
    SocketAddr::new(ip, u16::from_be(*port))
}

/// Destroys sockets, and counts those that were.
fn destroy(
    diag: &mut SockDiag,
    kind: Kind,
    sockets: &[SocketId],
    total: &AtomicU64,
) -> Result<u64, SweepError> {
    let (mut destroyed, mut refused) = (0, None);
    diag.destroy(kind, sockets, |outcome| match outcome {
        Ok(()) => destroyed += 1,
        // Closed meanwhile, or connected to another peer.
        Err(Errno::ENOENT) => {}
        Err(error) => refused = Some(error),
    })
    .map_err(SweepError::Destroy)?;
    total.fetch_add(destroyed, Ordering::Relaxed);
    match refused {
        // Where some are destroyed, the others have ended meanwhile.
        Some(error) if destroyed == 0 => Err(match error {
            Errno::EOPNOTSUPP => SweepError::Unsupported,
            error => SweepError::Destroy(error.into()),
        }),
        _ => Ok(destroyed),
    }
}
