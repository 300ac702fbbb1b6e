//! Connection tracking: a connection keeps the backend that its first packet got.

use shunt_common::{ConntrackEntry, ConntrackKey, Direction};

use crate::{
    maps::tables::{Tables, now},
    nat::table,
    packet::parsed::Packet,
};

/// A connection that was found.
pub(crate) struct Found<F: Tables> {
    /// Its entry in the packet's direction.
    pub entry: &'static ConntrackEntry<F>,
    /// Whether this direction had ended before: a SYN after that begins another connection.
    pub ended: bool,
}

/// Finds the packet's connection in this direction and updates its entry.
#[inline(always)]
pub(crate) fn find<F: Tables>(packet: &Packet<F>, direction: Direction) -> Option<Found<F>> {
    let key = ConntrackKey::new(packet.tuple, packet.protocol, direction);
    let entry = entry(&key)?;
    let ended = entry.seen & (ConntrackEntry::<F>::FIN | ConntrackEntry::<F>::RST) != 0;
    update(entry, packet.flags);
    Some(Found { entry, ended })
}

/// The entry with this key.
#[inline(always)]
pub(crate) fn entry<F: Tables>(key: &ConntrackKey<F>) -> Option<&'static mut ConntrackEntry<F>> {
    let entry = table::find(key)?;
    // SAFETY: the lookup gave a live entry, and its memory stays an entry of this table. If it is
    // removed while we use it, and given to another connection at once, that one gets our update
    // for a packet, and we its tuple: the window that every program over such a table has. Entries
    // are removed only after seconds of silence or by their own client's next connection.
    Some(unsafe { &mut *entry })
}

/// Updates the entry, in place, for a packet of its direction that sets these flags; one that sets
/// none leaves no trace.
#[inline(always)]
pub(crate) fn update<F: Tables>(entry: &mut ConntrackEntry<F>, flags: u16) {
    if flags == 0 {
        return;
    }
    // Written only when it changes, so that a busy connection's entry stays clean in the caches of
    // the CPUs that read it.
    let now = now();
    if entry.last_seen != now {
        entry.last_seen = now;
    }
    let seen = entry.seen | flags;
    if entry.seen != seen {
        entry.seen = seen;
    }
}
