//! Fragments: the later ones of a datagram follow the first, which alone has ports.
//!
//! Only a first fragment that was translated is remembered. One that comes before the first of its
//! datagram passes untouched: a program cannot hold a packet back.

use aya_ebpf::bindings::BPF_ANY;
use shunt_common::{FragmentEntry, FragmentKey, Hook, Tuple, elapsed};

use crate::{
    maps::{clock::seconds, tables::Tables},
    packet::parsed::{Form, Packet},
};

/// Remembers the tuple that a first fragment leaves with; nothing if the packet is none.
#[inline(always)]
pub(crate) fn remember<F: Tables>(packet: &Packet<F>, hook: Hook, translated: &Tuple<F>) {
    if packet.form == Form::FirstFragment {
        let entry = FragmentEntry {
            translated: *translated,
            seen: seconds(),
        };
        // Without room the rest of the datagram is passed by, and counted.
        let _ = F::fragments().insert(key(packet, hook), entry, BPF_ANY.into());
    }
}

/// Puts the tuple that the first fragment of the same datagram left with into `translated`; returns
/// whether that is known.
#[inline(always)]
pub(crate) fn recall<F: Tables>(packet: &Packet<F>, hook: Hook, translated: &mut Tuple<F>) -> bool {
    // SAFETY: an entry is replaced whole, by another datagram's after its lifetime.
    let Some(entry) = (unsafe { F::fragments().get(key(packet, hook)) }) else {
        return false;
    };
    *translated = entry.translated;
    elapsed(entry.seen, seconds()) <= FragmentEntry::<F>::LIFETIME
}

#[inline(always)]
const fn key<F: Tables>(packet: &Packet<F>, hook: Hook) -> FragmentKey<F> {
    FragmentKey {
        source: packet.tuple.source,
        destination: packet.tuple.destination,
        identification: packet.fragment.identification,
        protocol: packet.fragment.protocol as u8,
        hook: hook as u8,
        padding: 0,
    }
}
