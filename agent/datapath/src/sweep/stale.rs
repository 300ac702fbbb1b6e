//! The sockets on a backend that is gone, and their treatment.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use aya::Ebpf;
use shunt_common::socket::{Connected, Pair};

use crate::{
    error::DatapathError,
    sweep::{
        bell::Bell,
        covered::Coverage,
        destroy::{SweepError, destroy},
        frontends::Frontends,
        generations::Generations,
        lost::{Memory, address},
        message::{Kind, Socket, SocketId, kinds},
        remembered::{Remembered, Tables},
        sock_diag::{BATCH, SockDiag},
        udp::{ESTABLISHED, UdpSockets},
        unlisted::Unlisted,
    },
};

/// States of a socket (`net/tcp_states.h`) in which a process may wait for its peer, besides `ESTABLISHED`.
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
    udp: UdpSockets,
    destroyed_tcp: AtomicU64,
    /// True if a TCP socket was left because its endpoint is only unready.
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
    /// Frontend that the process connected to.
    pub frontend: SocketAddr,
    /// Backend that it is connected to.
    pub backend: SocketAddr,
}

/// Returns for each connection whether its endpoint is gone from its service port, and not merely
/// unable to take new connections: the backend table has neither.
pub type IsGone = Box<dyn FnMut(Vec<StaleConnection>) -> Vec<bool> + Send>;

/// Numbers of sockets that were cured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cured {
    /// UDP sockets that were connected to their frontend anew.
    pub moved_udp: u64,
    /// UDP sockets that were destroyed.
    pub destroyed_udp: u64,
    /// TCP sockets that were destroyed.
    pub destroyed_tcp: u64,
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
            udp: UdpSockets::new(Frontends::open(ebpf)?),
            destroyed_tcp: AtomicU64::new(0),
            has_spared: AtomicBool::new(false),
            trouble: Mutex::new(None),
        })
    }

    /// Returns how many sockets were cured since the agent's start.
    pub fn cured(&self) -> Cured {
        Cured {
            moved_udp: self.udp.moved.load(Ordering::Relaxed),
            destroyed_udp: self.udp.destroyed.load(Ordering::Relaxed),
            destroyed_tcp: self.destroyed_tcp.load(Ordering::Relaxed),
        }
    }

    /// Has UDP sockets of these cgroups connected anew from now on: the programs run for them.
    pub(crate) fn cover(&self, coverage: Coverage) {
        self.udp.cover(coverage);
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

    /// Returns whether a TCP socket was left at the last sweep, because its endpoint is only unready: that
    /// may change without any change of the backend table.
    pub(crate) fn has_spared(&self) -> bool {
        self.has_spared.load(Ordering::Relaxed)
    }

    /// Connects the UDP sockets anew whose backend is gone, or that are older than their frontend. If there is a way to
    /// notify them, destroys the TCP sockets whose endpoint is gone. Returns how many those were.
    ///
    /// What the kernel lists may be something else when it is destroyed: each socket is named by
    /// its cookie, its address and its peer's, so that it is not another one, and has not connected
    /// to another peer. Listing comes before moving and destroying, which move sockets in the tables that are
    /// listed.
    pub(crate) fn sweep(&self, is_gone: Option<&mut IsGone>) -> Result<Cured, SweepError> {
        let (moved_udp, destroyed_udp) = match self.remembered.of_udp() {
            Some(remembered) => {
                let remembered = remembered.map_err(SweepError::List)?;
                self.udp
                    .sweep(&Memory::new(remembered, &self.generations))?
            }
            // Logged at the start.
            None => (0, 0),
        };
        let destroyed_tcp = match is_gone {
            Some(is_gone) => self.sweep_tcp(is_gone)?,
            None => 0,
        };
        Ok(Cured {
            moved_udp,
            destroyed_udp,
            destroyed_tcp,
        })
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
                destroyed += destroy(&mut diag, kind, &gone)?;
            }
        }
        self.has_spared.store(spared, Ordering::Relaxed);
        self.destroyed_tcp.fetch_add(destroyed, Ordering::Relaxed);
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
            let Socket {
                id, peer, storages, ..
            } = socket;
            let mut pairs = storages.iter().filter_map(Connected::pair);
            let is_stale =
                |pair: &Pair| address(&pair.peer) == peer && self.generations.is_gone(pair);
            stale.extend(pairs.find(is_stale).map(|pair| (id, pair)));
        })
        .map_err(SweepError::List)?;
        Ok(stale)
    }

    /// Notes how a sweep went. Returns what is wrong, the first time that it is.
    pub(crate) fn note(&self, swept: Result<Cured, SweepError>) -> Option<String> {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match swept {
            Ok(cured) => {
                // A sweep that had nothing to destroy shows nothing about destroying.
                let has_destroyed = cured.destroyed_udp + cured.destroyed_tcp > 0;
                let is_over = has_destroyed || matches!(*trouble, Some(SweepError::List(_)));
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

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable as _;
    use shunt_common::socket::{Endpoint, Mapped};

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
