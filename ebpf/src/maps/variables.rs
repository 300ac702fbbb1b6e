//! Words that hold for all packets, which the agent changes while the programs run: see [`shunt_common::variables`].

use aya_ebpf::{bindings::BPF_F_MMAPABLE, btf_maps::Array, macros::btf_map};
use shunt_common::{
    V4, V6,
    variables::{RULES_V4, RULES_V6, WORDS},
};

/// The words.
#[btf_map]
pub(crate) static VARIABLES: Array<u64, WORDS, { BPF_F_MMAPABLE as usize }> = Array::new();

/// A family with the word that shows whether the host's routes may depend on more than the destination.
pub(crate) trait Ruled {
    const RULES: u32;
}

impl Ruled for V4 {
    const RULES: u32 = RULES_V4;
}

impl Ruled for V6 {
    const RULES: u32 = RULES_V6;
}

/// Returns true if packets may have to leave by another interface than the one that the stack chooses.
#[inline(always)]
pub(crate) fn has_rules<F: Ruled>() -> bool {
    VARIABLES.get(F::RULES).is_some_and(|rules| *rules != 0)
}
