//! UDP sockets that reach no backend of their frontend, and their cure.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tracing::info;

use crate::sweep::{
    covered::{Coverage, Covered},
    destroy::{SweepError, destroy},
    frontends::Frontends,
    lost::{Memory, Older, lost},
    message::{SocketId, kinds},
    moving::{Fate, Lost, Stuck, connect_anew},
    sock_diag::SockDiag,
};

/// The state of a connected UDP socket (`TCP_ESTABLISHED` of `net/tcp_states.h`).
pub(crate) const ESTABLISHED: u32 = 1 << 1;

/// The number of sockets that one sweep moves at most. The next one moves others.
const AT_ONCE: usize = 1 << 14;

/// The connected UDP sockets of the agent's network namespace.
#[derive(Debug)]
pub(crate) struct UdpSockets {
    older: Older,
    /// The cgroup that has the programs, if one has.
    coverage: Mutex<Option<Coverage>>,
    pub(crate) moved: AtomicU64,
    pub(crate) destroyed: AtomicU64,
}

/// The sockets of one sweep.
#[derive(Debug, Default)]
struct Found {
    /// Their backend is gone.
    gone: Vec<Lost>,
    /// They are connected to the frontend itself.
    older: Vec<Lost>,
}

/// The cgroup, also if another thread panicked with it: each change of it is whole.
fn lock(coverage: &Mutex<Option<Coverage>>) -> MutexGuard<'_, Option<Coverage>> {
    coverage.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UdpSockets {
    /// Of these frontends. No socket is moved until a cgroup has the programs.
    pub(crate) fn new(frontends: Frontends) -> Self {
        Self {
            older: Older::new(frontends),
            coverage: Mutex::new(None),
            moved: AtomicU64::new(0),
            destroyed: AtomicU64::new(0),
        }
    }

    /// Sets the cgroup that has the programs from now on.
    pub(crate) fn cover(&self, coverage: Coverage) {
        *lock(&self.coverage) = Some(coverage);
    }

    /// Connects the sockets anew that reach no backend of their frontend, by what sockets remember, and destroys those
    /// that cannot be. Returns how many were connected, and how many destroyed.
    pub(crate) fn sweep(&self, memory: &Memory) -> Result<(u64, u64), SweepError> {
        let coverage = lock(&self.coverage).clone();
        let covered = coverage.as_ref().map(Coverage::now);
        if covered.is_none() && !memory.has_gone() {
            return Ok((0, 0));
        }
        let mut diag = SockDiag::open().map_err(SweepError::List)?;
        let Found {
            mut gone,
            mut older,
        } = self.find(&mut diag, memory, covered.as_ref())?;
        let mut stuck = Vec::new();
        let mut moved = 0;
        if covered.is_some() {
            gone.truncate(AT_ONCE);
            older = self.older.untried(older);
            older.truncate(AT_ONCE - gone.len());
            let first_older = gone.len();
            let lost = [gone, older].concat();
            let mut reason = None;
            for (place, (lost, fate)) in lost.iter().zip(connect_anew(&lost)).enumerate() {
                match fate {
                    Fate::Moved => {
                        moved += 1;
                        if place >= first_older {
                            self.older.note(lost);
                        }
                    }
                    Fate::Left => {}
                    // It stays where it is until the frontend has a backend.
                    Fate::Refused if place >= first_older => {}
                    Fate::Refused => stuck.push(lost.clone()),
                    Fate::Stuck(why) => {
                        reason.get_or_insert(why);
                        stuck.push(lost.clone());
                    }
                }
            }
            explain(reason.as_ref());
        } else {
            stuck = gone;
        }
        self.moved.fetch_add(moved, Ordering::Relaxed);
        let destroyed = self.destroy(&mut diag, &stuck)?;
        Ok((moved, destroyed))
    }

    /// Finds the sockets; those that are connected to a frontend itself only among the `covered` ones.
    fn find(
        &self,
        diag: &mut SockDiag,
        memory: &Memory,
        covered: Option<&Covered>,
    ) -> Result<Found, SweepError> {
        let mut found = Found::default();
        for kind in kinds(libc::IPPROTO_UDP) {
            diag.dump(kind, ESTABLISHED, &[], |socket| {
                if let Some(frontend) = memory.gone(&socket) {
                    found.gone.push(lost(&socket, kind, frontend));
                } else if covered.is_some_and(|covered| self.older.has(&socket, memory, covered)) {
                    found.older.push(lost(&socket, kind, socket.peer));
                }
            })
            .map_err(SweepError::List)?;
        }
        Ok(found)
    }

    fn destroy(&self, diag: &mut SockDiag, stuck: &[Lost]) -> Result<u64, SweepError> {
        let mut destroyed = 0;
        for kind in kinds(libc::IPPROTO_UDP) {
            let of_kind = stuck.iter().filter(|lost| lost.kind == kind);
            let sockets: Vec<SocketId> = of_kind.map(|lost| lost.id).collect();
            destroyed += destroy(diag, kind, &sockets)?;
        }
        self.destroyed.fetch_add(destroyed, Ordering::Relaxed);
        Ok(destroyed)
    }
}

/// Logs the reason why sockets are destroyed rather than moved.
fn explain(reason: Option<&Stuck>) {
    if let Some(reason) = reason {
        info!("UDP sockets of this node are destroyed, as they cannot be connected anew: {reason}");
    }
}
