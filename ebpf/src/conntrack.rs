//! Connection tracking: a connection keeps the backend that its first packet got.

use shunt_common::{ConntrackEntry, ConntrackKey, Direction};

use crate::{family::Family, maps::CLOCK, packet::Packet};

/// A connection that was found.
pub struct Found<F: Family> {
    /// Its entry in the packet's direction.
    pub entry: &'static ConntrackEntry<F>,
    /// Whether this direction had ended before: a SYN after that begins another connection.
    pub ended: bool,
}

/// Finds the packet's connection in this direction and notes what the packet says, in place; an
/// ICMP error says nothing.
#[inline(always)]
pub fn find<F: Family>(packet: &Packet<F>, direction: Direction) -> Option<Found<F>> {
    let key = ConntrackKey::new(packet.tuple, packet.protocol, direction);
    let entry = entry(&key)?;
    let ended = entry.seen & (ConntrackEntry::<F>::FIN | ConntrackEntry::<F>::RST) != 0;
    note(entry, packet.says);
    Some(Found { entry, ended })
}

/// The entry with this key.
#[inline(always)]
pub fn entry<F: Family>(key: &ConntrackKey<F>) -> Option<&'static mut ConntrackEntry<F>> {
    let entry = F::conntrack().get_ptr_mut(key)?;
    // SAFETY: the lookup gave a live entry, and its memory stays an entry of this table. If it is
    // removed while we use it, and given to another connection at once, that one gets our note of
    // a packet, and we its tuple: the window that every program over such a table has. Entries
    // are removed only after seconds of silence or by their own client's next connection.
    Some(unsafe { &mut *entry })
}

/// Notes what a packet of the entry's direction says, in place; 0 is nothing.
#[inline(always)]
pub fn note<F: Family>(entry: &mut ConntrackEntry<F>, says: u16) {
    if says == 0 {
        return;
    }
    // Written only when it changes, so that a busy connection's entry stays clean in the caches of
    // the CPUs that read it.
    let now = clock();
    if entry.last_seen != now {
        entry.last_seen = now;
    }
    let seen = entry.seen | says;
    if entry.seen != seen {
        entry.seen = seen;
    }
}

/// The agent's clock.
#[inline(always)]
pub fn clock() -> u32 {
    CLOCK.get(0).copied().unwrap_or_default()
}
