//! The interfaces at which frames for other stations are left alone.
//!
//! A port of a bridge is none: the frames that come in there are for the bridge, or for what is behind its other
//! ports.

use aya_ebpf::{bindings::BPF_F_MMAPABLE, btf_maps::Array, macros::btf_map};
use shunt_common::StationPlace;

/// A bit for each of them: [`StationPlace`]. No hash: each packet of a bridge's pods asks for it.
#[btf_map]
pub(crate) static STATIONS: Array<u64, { StationPlace::WORDS }, { BPF_F_MMAPABLE as usize }> =
    Array::new();

/// Returns whether frames for other stations are left alone at the interface.
#[inline(always)]
pub(crate) fn leaves_others_alone(interface: u32) -> bool {
    StationPlace::of(interface).is_some_and(|place| {
        STATIONS
            .get(place.word)
            .is_some_and(|word| *word & place.mask != 0)
    })
}
