//! Tables of direct server return: the nodes of addresses, and before that is looked up, whether
//! there is anything to look up.

use shunt_common::{
    dsr::{NONE, SOME},
    variables::{LOCATED, TRACKED},
};

use crate::maps::{addresses::is_own, tables::Tables, variables::VARIABLES};

/// Returns whether packets may go on in envelopes.
#[inline(always)]
pub(crate) fn may_wrap() -> bool {
    located() != NONE
}

/// A number that changes with what is known of the nodes of addresses.
#[inline(always)]
pub(crate) fn located() -> u64 {
    VARIABLES.get(LOCATED).copied().unwrap_or(NONE)
}

/// Returns whether connections to frontends in mode dsr may be in the table.
#[inline(always)]
pub(crate) fn may_be_tracked() -> bool {
    VARIABLES
        .get(TRACKED)
        .is_none_or(|tracked| *tracked != NONE)
}

/// Marks that one is going to be.
#[inline(always)]
pub(crate) fn note_tracked() {
    let Some(tracked) = VARIABLES.get_ptr_mut(TRACKED) else {
        return;
    };
    // SAFETY: the lookup gave a word of the table. It is written once in a while: the others' lines stay.
    unsafe {
        if tracked.read_volatile() != SOME {
            tracked.write_volatile(SOME);
        }
    }
}

/// The node where an address is.
#[inline(always)]
pub(crate) fn location<F: Tables>(address: &F::Address) -> Option<F::Address> {
    // SAFETY: an entry is replaced whole.
    unsafe { F::locations().get(address) }.copied()
}

/// The node where an address is, if that is known and another one than this.
#[inline(always)]
pub(crate) fn other_node<F: Tables>(address: &F::Address) -> Option<F::Address> {
    let node = location::<F>(address)?;
    (!is_own::<F>(&node)).then_some(node)
}
