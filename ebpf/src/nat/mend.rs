//! Mending connections of which another party has overwritten a half in the table.
//!
//! These programs lose none, so a look now and then is enough ([`shunt_common::connections::LOOK`]). Functions
//! of their own look and mend: what a packet of an established connection costs is decided by those that
//! need neither.

use shunt_common::{
    V4, V6,
    connections::{Hit, Role, Signal},
};

use crate::{
    maps::{conntrack::Words, reached, tables::Tables},
    nat::handover::Handover,
};

/// A family with the subprograms that mend its connections.
pub(crate) trait Mend: Handover {
    /// [`shunt_common::connections::Table::is_broken_here`]; 0: no.
    fn is_broken(index: u32, version: u32) -> u32;
    /// [`shunt_common::connections::Table::mend_here`].
    fn mend(index: u32, version: u32, signal: u64, now: u32);
}

/// Returns whether the half that was found has lost its other one, or may have: [`mend`] finds out.
#[inline(always)]
pub(crate) fn is_broken<F: Mend>(hit: &Hit<F, Words>, now: u32) -> bool {
    hit.times.is_first_of_span(now) && F::is_broken(hit.index, hit.meta.version()) != 0
}

/// Has the half that was found get its other one back, if that is lost, before the connection learns
/// from the packet.
#[inline(always)]
pub(crate) fn mend<F: Mend>(hit: &Hit<F, Words>, signal: Signal, now: u32) {
    if hit.times.is_first_of_span(now) {
        F::mend(hit.index, hit.meta.version(), signal.0, now);
    }
}

/// Notes again that a client has reached the backend of this half.
#[inline(always)]
fn renew<F: Tables>(index: u32, version: u32) {
    let table = F::connections();
    let Some(half) = table.at(index, version) else {
        return;
    };
    if half.meta.role() != Role::Forward || !half.meta.keeps_client() {
        return;
    }
    if let Some(hit) = table.read(half) {
        let translated = hit.translated();
        reached::note::<F>(
            &translated.destination,
            translated.destination_port,
            half.meta.protocol(),
        );
    }
}

#[inline(always)]
fn is_broken_here<F: Tables>(index: u32, version: u32) -> bool {
    renew::<F>(index, version);
    F::connections().is_broken_here(index, version)
}

#[inline(always)]
fn mend_here<F: Tables>(index: u32, version: u32, signal: u64, now: u32) {
    renew::<F>(index, version);
    // Always there: the table has an entry for each CPU.
    let Some(opening) = F::openings().get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let connection = unsafe { &mut (*opening).connection };
    F::connections().mend_here(connection, index, version, signal, now);
}

/// Makes a family's subprograms, which the verifier looks at by themselves.
macro_rules! mending {
    ($family:ty: $is_broken:ident, $mend:ident) => {
        impl Mend for $family {
            #[inline(always)]
            fn is_broken(index: u32, version: u32) -> u32 {
                $is_broken(index, version)
            }

            #[inline(always)]
            fn mend(index: u32, version: u32, signal: u64, now: u32) {
                $mend(index, version, signal, now);
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $is_broken(index: u32, version: u32) -> u32 {
            is_broken_here::<$family>(index, version).into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $mend(index: u32, version: u32, signal: u64, now: u32) -> u32 {
            mend_here::<$family>(index, version, signal, now);
            0
        }
    };
}

mending!(V4: is_broken_v4, mend_v4);
mending!(V6: is_broken_v6, mend_v6);
