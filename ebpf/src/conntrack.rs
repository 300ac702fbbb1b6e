//! Connection tracking: a connection keeps the backend that its first packet got.

use aya_ebpf::bindings::BPF_ANY;
use shunt_common::{Backend, ConntrackEntry, ConntrackKey, Direction, Tuple};

use crate::{family::Family, maps::CLOCK, packet::Packet, service::Choice};

/// What a connection means for a packet.
pub struct Found<F: Family> {
    /// The tuple that the packet is to leave with.
    pub translated: Tuple<F>,
    /// Index of the connection's backend.
    pub backend: u32,
    /// The backend's generation when the connection was made.
    pub generation: u16,
    /// Whether this direction has ended: a SYN after that begins another connection.
    pub ended: bool,
}

/// Finds the packet's connection in this direction and notes what the packet says, in place.
#[inline(always)]
pub fn find<F: Family>(packet: &Packet<F>, direction: Direction) -> Option<Found<F>> {
    let key = ConntrackKey::new(packet.tuple, packet.protocol, direction);
    let entry = F::conntrack().get_ptr_mut(key)?;
    // SAFETY: the lookup gave a live entry. One that is removed while we use it is not given to
    // another connection before this program ends its RCU section, unless to the same bucket's
    // next: the window that every program over such a table has.
    let entry = unsafe { &mut *entry };
    let ended = entry.seen & (ConntrackEntry::<F>::FIN | ConntrackEntry::<F>::RST) != 0;
    // Written only when it changes, so that a busy connection's entry stays clean in the caches
    // of the CPUs that read it.
    let now = clock();
    if entry.last_seen != now {
        entry.last_seen = now;
    }
    let seen = entry.seen | packet.says();
    if entry.seen != seen {
        entry.seen = seen;
    }
    Some(Found {
        translated: entry.translated,
        backend: entry.backend,
        generation: entry.generation,
        ended,
    })
}

/// The agent's clock.
#[inline(always)]
fn clock() -> u32 {
    CLOCK.get(0).copied().unwrap_or_default()
}

/// Opens the connection of `packet` to the chosen backend: both entries, the reply's first, so
/// that no packet goes out whose answer would not be understood. Gives the tuple that the packet
/// is to leave with; `Err` if the table takes no more.
///
/// A client that uses a port again, at another frontend with the same backend, takes over the
/// reply entry of the earlier connection. Then that one's forward entry goes, so that its next
/// packet opens it anew instead of waiting for replies that would come from the wrong frontend.
/// If it has gone on to another backend since, it has a reply entry of its own there, and stays.
#[inline(always)]
pub fn open<F: Family>(packet: &Packet<F>, choice: &Choice<F>) -> Result<Tuple<F>, i32> {
    let Choice {
        index,
        backend:
            Backend {
                address,
                port,
                generation,
                ..
            },
    } = *choice;
    let source = if address == packet.tuple.source {
        F::hairpin_ip()
    } else {
        packet.tuple.source
    };
    let translated = Tuple {
        source,
        destination: address,
        destination_port: port,
        ..packet.tuple
    };
    let last_seen = clock();
    let entry = |translated, seen| ConntrackEntry {
        translated,
        backend: index,
        generation,
        seen,
        last_seen,
    };
    let conntrack = F::conntrack();
    let reply = ConntrackKey::new(translated.reversed(), packet.protocol, Direction::Reply);
    // SAFETY: as in `find`.
    if let Some(earlier) = unsafe { conntrack.get(reply) } {
        let forward = earlier.translated.reversed();
        if forward != packet.tuple {
            let key = ConntrackKey::new(forward, packet.protocol, Direction::Forward);
            // SAFETY: as in `find`.
            let now = unsafe { conntrack.get(key) };
            if now.is_some_and(|entry| entry.translated == translated) {
                // It may have been evicted in between.
                let _ = conntrack.remove(key);
            }
        }
    }
    conntrack.insert(reply, entry(packet.tuple.reversed(), 0), BPF_ANY.into())?;
    conntrack.insert(
        ConntrackKey::new(packet.tuple, packet.protocol, Direction::Forward),
        entry(translated, packet.says()),
        BPF_ANY.into(),
    )?;
    Ok(translated)
}
