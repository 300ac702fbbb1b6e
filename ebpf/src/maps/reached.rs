//! The UDP backends that clients with their own addresses have reached through a service lately.
//!
//! A client's datagram to such a backend itself may have the tuple of the client's connection through the
//! service. A lookup of every datagram in the connection table would read a cold cache line each. This table is small
//! enough for a processor's cache, and rules out nearly all other destinations.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use shunt_common::{
    Address as _, UDP,
    connections::{LOOK, Phase},
};

use crate::maps::{clock::now, conntrack::timeouts, tables::Tables};

const PLACES: u32 = 4096;

/// The tick in which the backends with this hash were reached last; 0: never. What a collision costs is a lookup.
#[btf_map]
pub(crate) static REACHED: Array<u32, { PLACES as usize }> = Array::new();

/// Notes that a client has reached a backend at this address and port, network order.
#[inline(always)]
pub(crate) fn note<F: Tables>(address: &F::Address, port: u16, protocol: u8) {
    if protocol == UDP
        && let Some(reached) = REACHED.get_ptr_mut(place_of::<F>(address, port))
    {
        // SAFETY: a word of the table. Each of two processors writes this tick or one beside it.
        unsafe { reached.write_volatile(now()) };
    }
}

/// Returns whether a connection through a service may lead to this address and port, network order.
#[inline(always)]
pub(crate) fn may_be<F: Tables>(address: &F::Address, port: u16) -> bool {
    let Some(reached) = REACHED.get_ptr(place_of::<F>(address, port)) else {
        return false;
    };
    // SAFETY: a word of the table; volatile, as other processors write it.
    let reached = unsafe { reached.read_volatile() };
    reached != 0 && now().wrapping_sub(reached) <= lifetime()
}

/// The ticks for which a note holds. A connection makes another one in each span of [`LOOK`] ticks with a packet.
#[inline(always)]
fn lifetime() -> u32 {
    let of = |phase| timeouts().of(phase);
    let longest = of(Phase::Unreplied)
        .max(of(Phase::Replied))
        .max(of(Phase::Lasting));
    longest.saturating_add(2 * LOOK)
}

#[inline(always)]
fn place_of<F: Tables>(address: &F::Address, port: u16) -> u32 {
    /// 2^32 over the golden ratio (Knuth, 6.4): it spreads neighbours.
    const FACTOR: u32 = 0x9e37_79b1;
    let last = address.words().last().copied().unwrap_or_default();
    let mixed = (last ^ u32::from(port) << 16 ^ u32::from(port)).wrapping_mul(FACTOR);
    mixed >> (32 - PLACES.ilog2())
}
