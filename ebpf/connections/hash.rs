//! The kernel's hash as conntrack uses it today, for comparison.

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_NOEXIST},
    btf_maps::{HashMap, PerCpuArray},
    macros::btf_map,
};
use shunt_common::{
    ConntrackEntry, ConntrackKey, Direction, Family, Tuple, V4, V6, connections::Connection,
    connections::Wide,
};

/// As many entries as the table has halves.
#[btf_map]
pub(crate) static HASH_V4: HashMap<ConntrackKey<V4>, ConntrackEntry<V4>, 524_288> = HashMap::new();

/// As [`HASH_V4`], IPv6.
#[btf_map]
pub(crate) static HASH_V6: HashMap<ConntrackKey<V6>, ConntrackEntry<V6>, 524_288> = HashMap::new();

/// What is entered: too large for the stack.
#[repr(C)]
pub(crate) struct Scratch<F: Family> {
    key: ConntrackKey<F>,
    entry: ConntrackEntry<F>,
}

#[btf_map]
pub(crate) static SCRATCH_V4: PerCpuArray<Scratch<V4>, 1> = PerCpuArray::new();

#[btf_map]
pub(crate) static SCRATCH_V6: PerCpuArray<Scratch<V6>, 1> = PerCpuArray::new();

/// A family with its hash.
pub(crate) trait Hashed: Wide {
    fn conntrack() -> &'static HashMap<ConntrackKey<Self>, ConntrackEntry<Self>, 524_288>;
    fn scratch() -> &'static PerCpuArray<Scratch<Self>, 1>;
}

impl Hashed for V4 {
    #[inline(always)]
    fn conntrack() -> &'static HashMap<ConntrackKey<V4>, ConntrackEntry<V4>, 524_288> {
        &HASH_V4
    }

    #[inline(always)]
    fn scratch() -> &'static PerCpuArray<Scratch<V4>, 1> {
        &SCRATCH_V4
    }
}

impl Hashed for V6 {
    #[inline(always)]
    fn conntrack() -> &'static HashMap<ConntrackKey<V6>, ConntrackEntry<V6>, 524_288> {
        &HASH_V6
    }

    #[inline(always)]
    fn scratch() -> &'static PerCpuArray<Scratch<V6>, 1> {
        &SCRATCH_V6
    }
}

/// Finds a packet's entry and updates it, as `conntrack::find` does.
#[inline(always)]
pub(crate) fn find<F: Hashed>(
    tuple: &Tuple<F>,
    protocol: u8,
    direction: Direction,
    now: u32,
) -> Option<&'static ConntrackEntry<F>> {
    let key = ConntrackKey::of_packet(
        &tuple.source,
        &tuple.destination,
        tuple.port_word(),
        protocol,
        direction,
    );
    let entry = F::conntrack().get_ptr_mut(key)?;
    // SAFETY: the lookup gave a live entry.
    let entry = unsafe { &mut *entry };
    if entry.last_seen != now {
        entry.last_seen = now;
    }
    let seen = entry.seen | ConntrackEntry::<F>::PACKET;
    if entry.seen != seen {
        entry.seen = seen;
    }
    Some(entry)
}

/// Enters a connection's two entries, as `open` does for the first port that it tries.
#[inline(always)]
pub(crate) fn open<F: Hashed>(new: &Connection<F>, now: u32) -> bool {
    let Some(scratch) = F::scratch().get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: this CPU's own.
    let scratch = unsafe { &mut *scratch };
    scratch.key = ConntrackKey::new(new.translated.reversed(), new.protocol, Direction::Reply);
    // SAFETY: the lookup gives a live entry.
    if unsafe { F::conntrack().get(scratch.key) }.is_some() {
        return false;
    }
    let address_change = new.client.address_difference(&new.translated).fold();
    let port_change = new.client.port_difference(&new.translated).fold();
    scratch.entry = ConntrackEntry {
        translated: new.client.reversed(),
        backend: new.backend,
        generation: new.generation,
        seen: 0,
        last_seen: now,
        address_change: address_change.undone(),
        port_change: port_change.undone(),
        ..bytemuck::Zeroable::zeroed()
    };
    let entered = F::conntrack().insert(scratch.key, scratch.entry, BPF_NOEXIST.into());
    if entered.is_err() {
        return false;
    }
    scratch.key = ConntrackKey::new(new.client, new.protocol, Direction::Original);
    scratch.entry.translated = new.translated;
    scratch.entry.address_change = address_change;
    scratch.entry.port_change = port_change;
    scratch.entry.seen = ConntrackEntry::<F>::PACKET;
    F::conntrack()
        .insert(scratch.key, scratch.entry, BPF_ANY.into())
        .is_ok()
}
