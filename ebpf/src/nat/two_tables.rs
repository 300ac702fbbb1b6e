//! The conntrack table, while an earlier version of the layouts may hand over to this one.
//!
//! As long as a hook may have a program of that version, its table decides: it is looked at first
//! and written first, and our entries follow it. Afterwards ours decides, and until no program is at
//! a packet that it began before, whoever enters an entry does so in both, in the same order. See
//! `docs/upgrade.md`.

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use shunt_common::{ConntrackEntry, ConntrackKey, registry::handover::Phase};

use crate::maps::{handover::HANDOVER, tables::Tables};

const NONE: u32 = Phase::None as u32;
const SWAPPING: u32 = Phase::Swapping as u32;

#[inline(always)]
fn phase() -> u32 {
    HANDOVER.get(0).copied().unwrap_or_default()
}

/// The entry with this key.
#[inline(always)]
pub(crate) fn find<F: Tables>(key: &ConntrackKey<F>) -> Option<*mut ConntrackEntry<F>> {
    let phase = phase();
    if phase != SWAPPING {
        let found = F::conntrack().get_ptr_mut(key);
        if found.is_some() || phase == NONE {
            return found;
        }
    }
    let found = follow::<F>(key);
    (!found.is_null()).then_some(found)
}

/// Makes our entry with this key what that of the version before is; null if there is none.
///
/// A function of its own: it is called from many places, and seldom.
#[expect(
    clippy::needless_borrows_for_generic_args,
    reason = "an entry passed by value would be copied to the stack"
)]
#[inline(never)]
fn follow<F: Tables>(key: *const ConntrackKey<F>) -> *mut ConntrackEntry<F> {
    // SAFETY: the caller's key, which lives longer.
    let key = unsafe { &*key };
    // SAFETY: an entry stays one of its table, as in `conntrack::entry`.
    let Some(before) = (unsafe { F::previous().get(key) }) else {
        return core::ptr::null_mut();
    };
    if let Some(ours) = F::conntrack().get_ptr_mut(key) {
        // SAFETY: as above.
        let entry = unsafe { &mut *ours };
        if entry.backend == before.backend
            && entry.generation == before.generation
            && entry.translated == before.translated
        {
            let seen = entry.seen | before.seen;
            if entry.seen != seen {
                entry.seen = seen;
            }
            return ours;
        }
    }
    let Some(conversion) = F::converted().get_ptr_mut(0) else {
        return core::ptr::null_mut();
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let conversion = unsafe { &mut *conversion };
    conversion.ours.set_from(before);
    // Our table has as much room as the other one. If it is full all the same, the packet's
    // connection is unknown, as one for which there was no room.
    let _ = F::conntrack().insert(key, &conversion.ours, BPF_ANY.into());
    F::conntrack()
        .get_ptr_mut(key)
        .unwrap_or(core::ptr::null_mut())
}

/// Enters an entry unless there is one with its key: of two CPUs, one succeeds.
#[inline(always)]
pub(crate) fn claim<F: Tables>(
    key: &ConntrackKey<F>,
    entry: &ConntrackEntry<F>,
) -> Result<(), i32> {
    let phase = phase();
    if phase == NONE {
        return F::conntrack().insert(key, entry, BPF_NOEXIST.into());
    }
    enter_before::<F>(key, entry, BPF_NOEXIST.into())?;
    // What ours has and the other one has not is out of date while the other one decides.
    let how = if phase == SWAPPING {
        BPF_ANY
    } else {
        BPF_NOEXIST
    };
    F::conntrack()
        .insert(key, entry, how.into())
        .inspect_err(|_| _ = F::previous().remove(key))
}

/// Enters an entry in place of any other with its key.
#[inline(always)]
pub(crate) fn enter<F: Tables>(
    key: &ConntrackKey<F>,
    entry: &ConntrackEntry<F>,
) -> Result<(), i32> {
    if phase() != NONE {
        enter_before::<F>(key, entry, BPF_ANY.into())?;
    }
    F::conntrack().insert(key, entry, BPF_ANY.into())
}

/// Enters an entry into the table of the version before.
#[expect(
    clippy::needless_borrows_for_generic_args,
    reason = "an entry passed by value would be copied to the stack"
)]
#[inline(always)]
fn enter_before<F: Tables>(
    key: &ConntrackKey<F>,
    entry: &ConntrackEntry<F>,
    how: u64,
) -> Result<(), i32> {
    // `-ENOMEM`, as if the table were full: there is one for each CPU.
    let conversion = F::converted().get_ptr_mut(0).ok_or(-12)?;
    // SAFETY: as in `follow`.
    let conversion = unsafe { &mut *conversion };
    entry.put_into(&mut conversion.before);
    F::previous().insert(key, &conversion.before, how)
}

/// Removes an entry; none there is no matter.
#[inline(always)]
pub(crate) fn remove<F: Tables>(key: &ConntrackKey<F>) {
    if phase() != NONE {
        let _ = F::previous().remove(key);
    }
    let _ = F::conntrack().remove(key);
}
