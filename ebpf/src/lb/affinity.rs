//! Session affinity: a client stays with the backend that it had last.

use aya_ebpf::bindings::BPF_ANY;
use shunt_common::{AffinityEntry, AffinityKey, Backend, elapsed};

use crate::maps::{backends::Choice, clock::seconds, tables::Tables};

/// The backend that the client had last, if that was no longer than `timeout` seconds ago, it has
/// not left its service since, and it is `usable`.
#[inline(always)]
pub(crate) fn recall<F: Tables>(
    key: &AffinityKey<F>,
    timeout: u32,
    usable: impl Fn(&Backend<F>) -> bool,
) -> Option<Choice<F>> {
    let entry = F::affinity().get_ptr_mut(key)?;
    // SAFETY: the lookup gave a live entry, made of words.
    let entry = unsafe { &mut *entry };
    let now = seconds();
    if elapsed(entry.last_used, now) > timeout {
        return None;
    }
    let choice = Choice::at(entry.backend)?;
    if choice.backend.generation != entry.generation || !usable(choice.backend) {
        return None;
    }
    entry.last_used = now;
    Some(choice)
}

/// Remembers which backend the client has now.
#[inline(always)]
pub(crate) fn remember<F: Tables>(key: &AffinityKey<F>, choice: &Choice<F>) {
    let entry = AffinityEntry {
        backend: choice.index,
        last_used: seconds(),
        generation: choice.generation(),
        padding: [0; 2],
    };
    // Without room the client picks again next time.
    let _ = F::affinity().insert(key, entry, BPF_ANY.into());
}
