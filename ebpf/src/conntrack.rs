//! Connection tracking: a connection keeps the backend that its first packet got.

use aya_ebpf::bindings::BPF_ANY;
use shunt_common::{Backend, ConntrackEntry, ConntrackKey, Direction, Tuple};

use crate::{family::Family, packet::Packet, service::Choice};

/// The entry of the packet's connection in this direction.
#[inline(always)]
pub fn find<F: Family>(
    packet: &Packet<F>,
    direction: Direction,
) -> Option<&'static ConntrackEntry<F>> {
    let key = ConntrackKey::new(packet.tuple, packet.protocol, direction);
    // SAFETY: an entry that is evicted while we read it is not reused before this program ends
    // its RCU section, unless for the same bucket's next connection: the window that every
    // program over an LRU table has.
    unsafe { F::conntrack().get(key) }
}

/// Opens the connection of `packet` to the chosen backend: both entries, the reply's first, so
/// that no packet goes out whose answer would not be understood. Gives the tuple that the packet
/// is to leave with; `Err` if the table takes no more.
///
/// A client that uses a port again, at another frontend with the same backend, takes over the
/// reply entry of the earlier connection. Then that one's forward entry goes, so that its next
/// packet opens it anew instead of waiting for replies that would come from the wrong frontend.
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
    let translated = Tuple {
        destination: address,
        destination_port: port,
        ..packet.tuple
    };
    let entry = |translated| ConntrackEntry {
        translated,
        backend: index,
        generation,
        padding: 0,
    };
    let conntrack = F::conntrack();
    let reply = ConntrackKey::new(translated.reversed(), packet.protocol, Direction::Reply);
    // SAFETY: as in `find`.
    if let Some(earlier) = unsafe { conntrack.get(reply) } {
        let forward = earlier.translated.reversed();
        if forward != packet.tuple {
            let key = ConntrackKey::new(forward, packet.protocol, Direction::Forward);
            // It may have been evicted already.
            let _ = conntrack.remove(key);
        }
    }
    conntrack.insert(reply, entry(packet.tuple.reversed()), BPF_ANY.into())?;
    conntrack.insert(
        ConntrackKey::new(packet.tuple, packet.protocol, Direction::Forward),
        entry(translated),
        BPF_ANY.into(),
    )?;
    Ok(translated)
}
