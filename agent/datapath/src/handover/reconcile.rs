//! Making our table what another one is, while packets change both.

use std::io;

use shunt_common::connections::{Key, Refused, Snapshot, Wide};

use crate::maps::{connection_table::ConnectionTable, family::FromIp};

/// The table that decides.
pub(crate) trait Source<F: Wide> {
    /// Shows every connection whose time is not over, in any order. What changes meanwhile may be among them or not.
    fn each(&self, see: &mut dyn FnMut(&Snapshot<F>) -> io::Result<()>) -> io::Result<()>;

    /// The connection with this forward half, and whether its time is over.
    fn get(&self, forward: &Key<F>) -> io::Result<Option<(Snapshot<F>, bool)>>;
}

/// Work that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reconciled {
    /// Connections that were entered or ended.
    pub(crate) repairs: usize,
    /// Connections for which there was no room.
    pub(crate) lost: usize,
}

/// After how many rounds it is enough: what packets repair themselves is no reason to go on.
const ROUNDS: usize = 8;

/// Makes `target` what `source` is at tick `now`. Packets meanwhile change `source` first, then
/// `target`.
///
/// What is read of the one may be out of date when it is written to the other. So this is done
/// until a round finds nothing to do, of which the first copies everything, the second a few.
///
/// # Errors
///
/// If the source cannot be read.
pub(crate) fn reconcile<F: FromIp + Wide>(
    source: &impl Source<F>,
    target: &ConnectionTable<F>,
    now: u32,
) -> io::Result<Reconciled> {
    let mut all = Reconciled::default();
    for _ in 0..ROUNDS {
        let Reconciled { repairs, lost } = round(source, target, now)?;
        all.repairs += repairs;
        all.lost = lost;
        if repairs == 0 {
            break;
        }
    }
    Ok(all)
}

/// Connections only in `target` go first: the other way round, a connection that a packet opens between
/// our two looks at it would be missing at the end of the round.
///
/// Packets of a connection that only our programs see count in `target` alone. So what both have stays until its
/// time is over in both.
fn round<F: FromIp + Wide>(
    source: &impl Source<F>,
    target: &ConnectionTable<F>,
    now: u32,
) -> io::Result<Reconciled> {
    let mut done = Reconciled::default();
    let table = target.table();
    for index in 0..target.slots() {
        let Some(there) = table.snapshot(index) else {
            continue;
        };
        let is_right = source
            .get(&there.connection.forward)?
            .is_some_and(|(snapshot, is_over)| {
                snapshot.is_of(&there.connection) && !(is_over && table.is_forgotten(&there, now))
            });
        if !is_right && table.end_snapshot(&there) {
            done.repairs += 1;
        }
    }
    source.each(&mut |snapshot| {
        let forward = &snapshot.connection.forward;
        match table.snapshot_of(forward) {
            Some((_, there)) if snapshot.is_of(&there.connection) => table.absorb(snapshot),
            Some((_, there)) => {
                // Another connection has the tuple: which one, `source` shows now.
                if let Some((right, false)) = source.get(forward)?
                    && !right.is_of(&there.connection)
                {
                    table.end_snapshot(&there);
                    enter(target, &right, now, &mut done);
                }
            }
            None => enter(target, snapshot, now, &mut done),
        }
        Ok(())
    })?;
    Ok(done)
}

/// Enters a connection, or counts that there is no room for it.
fn enter<F: FromIp + Wide>(
    target: &ConnectionTable<F>,
    snapshot: &Snapshot<F>,
    now: u32,
    done: &mut Reconciled,
) {
    match target.table().carry(snapshot, now) {
        // Another writer was faster: the next round shows whether that was right.
        Ok(()) | Err(Refused::Exists | Refused::Contended) => done.repairs += 1,
        Err(Refused::Full) => done.lost += 1,
    }
}
