//! Which sockets are on a backend that is gone, and what becomes of them.

use std::{
    collections::{HashMap, HashSet},
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
    socket::{Connected, Endpoint, Pair},
};
use thiserror::Error;

use crate::{
    error::DatapathError,
    maps::family::FromIp as _,
    sweep::{
        bell::Bell,
        generations::Generations,
        message::{Kind, Socket, SocketId, kinds},
        remembered::{Remembered, Tables},
        sock_diag::{BATCH, SockDiag},
        unlisted::Unlisted,
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
    unlisted: Vec<Unlisted>,
    generations: Generations,
    pub(crate) bell: Bell,
    destroyed_udp: AtomicU64,
    destroyed_tcp: AtomicU64,
    /// Whether a TCP socket was left because its endpoint is only unready.
    has_spared: AtomicBool,
    trouble: Mutex<Option<SweepError>>,
}

/// The sockets that are to leave a backend that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Swept {
    /// True if UDP sockets are.
    pub(crate) udp: bool,
    /// True if TCP sockets are.
    pub(crate) tcp: bool,
}

/// A TCP connection to a backend that is not in the table any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleConnection {
    /// What the process asked.
    pub frontend: SocketAddr,
    /// What it is connected to.
    pub backend: SocketAddr,
}

/// UDP sockets with a pair whose backend is gone: the socket's cookie, and the peer that it has if it is
/// connected to that pair's. A socket may remember two pairs, and is connected to one of them.
type Gone = HashSet<(u64, SocketAddr)>;

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
    /// Opens the tables of the loaded object. Sockets that are not `swept` are not reported as unlisted.
    pub(crate) fn open(ebpf: &mut Ebpf, swept: Swept) -> Result<Self, DatapathError> {
        let remembered = Remembered::open(ebpf)?;
        Ok(Self {
            unlisted: missed(remembered.unlisted(), swept),
            remembered,
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

    /// Returns the sockets that the kernel does not list, of those that are to leave a backend that is
    /// gone. They stay for as long as this agent runs.
    pub fn unlisted(&self) -> &[Unlisted] {
        &self.unlisted
    }

    /// Why stale sockets stay, if they do.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let unlisted = self.unlisted.iter().map(ToString::to_string);
        let all: Vec<String> = unlisted
            .chain(trouble.as_ref().map(ToString::to_string))
            .collect();
        (!all.is_empty()).then(|| all.join("; "))
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
        let udp = self.sweep_udp()?;
        let tcp = match is_gone {
            Some(is_gone) => self.sweep_tcp(is_gone)?,
            None => 0,
        };
        Ok(Destroyed { udp, tcp })
    }

    /// Destroys the UDP sockets whose backend is gone. Sock_diag lists sockets only if there are any:
    /// what they remember comes from the iterator.
    fn sweep_udp(&self) -> Result<u64, SweepError> {
        let gone = self.gone(self.remembered.of_udp())?;
        if gone.is_empty() {
            return Ok(0);
        }
        let mut destroyed = 0;
        let mut diag = SockDiag::open().map_err(SweepError::List)?;
        for kind in kinds(libc::IPPROTO_UDP) {
            let stale = stale_udp(&mut diag, kind, &gone)?;
            for batch in stale.chunks(BATCH) {
                destroyed += destroy(&mut diag, kind, batch, &self.destroyed_udp)?;
            }
        }
        Ok(destroyed)
    }

    /// Destroys the TCP sockets whose endpoint is gone.
    fn sweep_tcp(&self, is_gone: &mut IsGone) -> Result<u64, SweepError> {
        let Some(tables) = self.remembered.of_tcp() else {
            // Logged at the start.
            return Ok(0);
        };
        let (mut destroyed, mut spared) = (0, false);
        let mut diag = SockDiag::open().map_err(SweepError::List)?;
        for kind in kinds(libc::IPPROTO_TCP) {
            let mut stale = self.stale_tcp(&mut diag, kind, tables)?;
            if !stale.is_empty() {
                // The kernel copies a pair while a process may rewrite it, and would do so otherwise the second time.
                stale = of_both(&stale, self.stale_tcp(&mut diag, kind, tables)?);
            }
            for batch in stale.chunks(BATCH) {
                let connections = batch.iter().map(|(_, pair)| connection(pair)).collect();
                let verdicts = is_gone(connections);
                let gone = batch.iter().zip(&verdicts).filter(|(_, is_gone)| **is_gone);
                let gone: Vec<SocketId> = gone.map(|((id, _), _)| *id).collect();
                spared |= gone.len() < batch.len();
                destroyed += destroy(&mut diag, kind, &gone, &self.destroyed_tcp)?;
            }
        }
        self.has_spared.store(spared, Ordering::Relaxed);
        Ok(destroyed)
    }

    /// Returns the TCP sockets of a kind that are connected to a backend that is gone, each with its
    /// pair.
    fn stale_tcp(
        &self,
        diag: &mut SockDiag,
        kind: Kind,
        tables: &Tables,
    ) -> Result<Vec<(SocketId, Pair)>, SweepError> {
        let states = ESTABLISHED | SYN_SENT | FIN_WAIT1 | FIN_WAIT2 | CLOSE_WAIT;
        let mut stale = Vec::new();
        diag.dump(kind, states, &tables.all(), |socket| {
            let Socket { id, peer, storages } = socket;
            let mut pairs = storages.iter().filter_map(Connected::pair);
            let is_stale =
                |pair: &Pair| address(&pair.peer) == peer && self.generations.is_gone(pair);
            stale.extend(pairs.find(is_stale).map(|pair| (id, pair)));
        })
        .map_err(SweepError::List)?;
        Ok(stale)
    }

    /// The sockets with a pair whose backend is gone.
    fn gone(&self, remembered: io::Result<Vec<(u64, Pair)>>) -> Result<Gone, SweepError> {
        let remembered = remembered.map_err(SweepError::List)?.into_iter();
        let gone = remembered.filter(|(_, pair)| self.generations.is_gone(pair));
        Ok(gone
            .map(|(cookie, pair)| (cookie, address(&pair.peer)))
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

/// Returns the swept ones of the UDP and TCP sockets that the kernel does not list.
fn missed([udp, tcp]: [Option<&Unlisted>; 2], swept: Swept) -> Vec<Unlisted> {
    let udp = udp.filter(|_| swept.udp);
    let tcp = tcp.filter(|_| swept.tcp);
    udp.into_iter().chain(tcp).cloned().collect()
}

/// Returns the UDP sockets of a kind whose pairs are among `gone`. A socket that was disconnected since, or
/// that a process connected elsewhere, has another peer than its pair.
fn stale_udp(diag: &mut SockDiag, kind: Kind, gone: &Gone) -> Result<Vec<SocketId>, SweepError> {
    let mut stale = Vec::new();
    diag.dump(kind, ESTABLISHED, &[], |Socket { id, peer, .. }| {
        if gone.contains(&(id.cookie(), peer)) {
            stale.push(id);
        }
    })
    .map_err(SweepError::List)?;
    Ok(stale)
}

/// Returns those of a second list of sockets and their pairs that are in the first one alike.
fn of_both(first: &[(SocketId, Pair)], mut second: Vec<(SocketId, Pair)>) -> Vec<(SocketId, Pair)> {
    let first: HashMap<u64, &Pair> = first.iter().map(|(id, pair)| (id.cookie(), pair)).collect();
    second.retain(|(id, pair)| first.get(&id.cookie()) == Some(&pair));
    second
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

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable as _;
    use shunt_common::socket::Mapped;

    use super::*;

    #[test]
    fn a_pair_that_is_listed_in_two_ways_is_not_judged() {
        let socket = |number| {
            let mut id = SocketId::zeroed();
            id.cookie = [number, 0];
            id
        };
        let pair = |peer, generation| {
            let endpoint = |port| Endpoint {
                address: Mapped([0; 2]),
                port,
            };
            Pair {
                frontend: endpoint(1),
                peer: endpoint(peer),
                backend: 1,
                generation,
            }
        };
        let first = [(socket(1), pair(7, 1)), (socket(2), pair(8, 1))];
        let second = vec![
            (socket(1), pair(7, 1)),
            (socket(2), pair(9, 1)),
            (socket(3), pair(7, 1)),
        ];
        assert_eq!(of_both(&first, second), first[..1]);
        assert_eq!(of_both(&first, vec![(socket(1), pair(7, 2))]), []);
    }

    #[test]
    fn only_sockets_that_would_be_destroyed_are_missed() {
        let (udp, tcp) = (Unlisted::Udp("a".into()), Unlisted::Tcp("b".into()));
        let both = [Some(&udp), Some(&tcp)];
        for (swept, unlisted, expected) in [
            ([true, false], both, vec![&udp]),
            ([true, true], both, vec![&udp, &tcp]),
            ([true, true], [None, Some(&tcp)], vec![&tcp]),
            ([true, true], [None; 2], vec![]),
            ([false, false], both, vec![]),
        ] {
            let [udp, tcp] = swept;
            let found = missed(unlisted, Swept { udp, tcp });
            assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
    }
}
