//! Words that hold for all packets, which the agent changes while the programs run: see [`shunt_common::variables`].

use aya_ebpf::{bindings::BPF_F_MMAPABLE, btf_maps::Array, macros::btf_map};
use shunt_common::variables::WORDS;

/// The words.
#[btf_map]
pub(crate) static VARIABLES: Array<u64, WORDS, { BPF_F_MMAPABLE as usize }> = Array::new();
