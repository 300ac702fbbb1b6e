//! Session affinity: a client stays with the backend that it had last.

use aya_ebpf::bindings::BPF_ANY;
use shunt_common::{AffinityEntry, AffinityKey, Backend};

use crate::{conntrack::clock, family::Family, service::Choice};

/// The backend that the client had last, if that was no longer than `timeout` seconds ago, it has
/// not left its service since, and it is `usable`.
#[inline(always)]
pub fn recall<F: Family>(
    bond: &AffinityKey<F>,
    timeout: u32,
    usable: impl Fn(&Backend<F>) -> bool,
) -> Option<Choice<F>> {
    let entry = F::affinity().get_ptr_mut(bond)?;
    // SAFETY: the lookup gave a live entry, made of words.
    let entry = unsafe { &mut *entry };
    let now = clock();
    if now.wrapping_sub(entry.last_used) > timeout {
        return None;
    }
    let backend = F::backends().get(entry.backend)?;
    if backend.generation != entry.generation || !usable(backend) {
        return None;
    }
    entry.last_used = now;
    Some(Choice {
        index: entry.backend,
        backend,
    })
}

/// Remembers which backend the client has now.
#[inline(always)]
pub fn remember<F: Family>(bond: &AffinityKey<F>, choice: &Choice<F>) {
    let entry = AffinityEntry {
        backend: choice.index,
        last_used: clock(),
        generation: choice.backend.generation,
        padding: [0; 2],
    };
    // Without room the client picks again next time.
    let _ = F::affinity().insert(bond, entry, BPF_ANY.into());
}
