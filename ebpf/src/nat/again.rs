//! Meaning of a backend's answer to a SYN in a connection ([`shunt_common::connections`], the module `proof`): the
//! connection begins again with its tuple and its backend, and counts as a new one; or, if the backend is gone, the
//! client is to choose another.

use shunt_common::{Counter, V4, V6, connections::Signal};

use crate::{
    maps::{
        backends::{self, count_connection},
        counters::count,
        services::count_opened,
        tables::Tables,
    },
    nat::{
        conntrack::{self, Find},
        wanted::Half,
    },
    packet::parsed::Packet,
};

/// A family with the subprograms for it.
pub(crate) trait Again: Find {
    /// [`is_left_here`]; 0: no.
    fn is_left(index: u32, version: u32, signal: u64) -> u64;
}

/// Returns whether the packet is the answer of a backend that is gone to a SYN, so that the connection is over: the
/// client's next SYN chooses another backend. Of a reply half.
#[inline(always)]
pub(crate) fn is_left<F: Again>(packet: &Packet<F>, half: &Half) -> bool {
    conntrack::awaits_again(half)
        && !packet.is_error()
        && F::is_left(half.index, half.meta.version(), packet.signal.0) != 0
}

#[inline(always)]
fn is_left_here<F: Tables>(index: u32, version: u32, signal: Signal) -> bool {
    let Some(half) = F::connections().at(index, version) else {
        return false;
    };
    if !F::connections().shows_end(&half, signal) {
        return false;
    }
    let is_gone = F::connections()
        .begun(index)
        .is_some_and(|(facts, generation)| {
            !conntrack::is_backend_current::<F>(facts.backend(), generation)
        });
    if is_gone {
        F::connections().mistake(half);
    }
    is_gone
}

/// Counts the connection whose reply half is at `index`.
#[inline(always)]
fn begun_again<F: Tables>(index: u32) {
    let Some((facts, generation)) = F::connections().begun(index) else {
        return;
    };
    count(Counter::Connection);
    count_opened(facts.service());
    if backends::is_current::<F>(facts.backend(), generation) {
        count_connection::<F>(facts.backend());
    }
}

/// Makes a family's subprograms, which the verifier looks at by themselves.
macro_rules! again {
    ($family:ty: $again:ident, $is_left:ident) => {
        impl Again for $family {
            #[inline(always)]
            fn is_left(index: u32, version: u32, signal: u64) -> u64 {
                $is_left(index, version, signal)
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $is_left(index: u32, version: u32, signal: u64) -> u64 {
            is_left_here::<$family>(index, version, Signal(signal)).into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $again(index: u32) -> u64 {
            begun_again::<$family>(index);
            0
        }
    };
}

again!(V4: again_v4, is_left_v4);
again!(V6: again_v6, is_left_v6);
