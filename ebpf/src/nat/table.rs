//! The conntrack table, as everything else here reads and writes it.

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use shunt_common::{ConntrackEntry, ConntrackKey};

use crate::maps::tables::Tables;

/// The entry with this key.
#[inline(always)]
pub(crate) fn find<F: Tables>(key: &ConntrackKey<F>) -> Option<*mut ConntrackEntry<F>> {
    F::conntrack().get_ptr_mut(key)
}

/// Enters an entry unless there is one with its key: of two CPUs, one succeeds.
#[inline(always)]
pub(crate) fn claim<F: Tables>(
    key: &ConntrackKey<F>,
    entry: &ConntrackEntry<F>,
) -> Result<(), i32> {
    F::conntrack().insert(key, entry, BPF_NOEXIST.into())
}

/// Enters an entry in place of any other with its key.
#[inline(always)]
pub(crate) fn enter<F: Tables>(
    key: &ConntrackKey<F>,
    entry: &ConntrackEntry<F>,
) -> Result<(), i32> {
    F::conntrack().insert(key, entry, BPF_ANY.into())
}

/// Removes an entry; none there is no matter.
#[inline(always)]
pub(crate) fn remove<F: Tables>(key: &ConntrackKey<F>) {
    let _ = F::conntrack().remove(key);
}
