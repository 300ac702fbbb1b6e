//! Handing a packet to the stack half translated: its destination where it comes in, its source
//! where it goes out.
//!
//! That is for packets that the programs forward themselves otherwise, but that need what only the
//! stack can do: cut them into fragments, resolve a next hop or report to the sender that there is none,
//! write into their options, judge by `rp_filter` where they came in. In between they have the
//! source with which they came, so that the stack neither takes them for its own (a *martian*, with
//! this node's address as its source) nor sends an error to any host but their sender. An error of
//! the stack's about such a packet is translated where it leaves.
//!
//! The packet carries the number of its entry in a table (`skb->tc_index`). Of two packets in the
//! stack whose tuples have one number, the first leaves with the source that it came with, and is
//! lost. If the host's own rules give the packet another source on its way, it gets ours all the
//! same, unless two flows have used the entry within the time that the stack holds a packet.

use shunt_common::{Address as _, InterfaceRole, Tuple, elapsed};

use crate::{
    ctx::access::Access,
    forward::{fib::Routed, origin},
    maps::{
        clock::seconds,
        scratch::Halfway,
        tables::{HALVES, INTERFACES, Tables},
    },
    packet::parsed::{Form, Packet},
};

/// Mark that distinguishes our tags from others' in the same place.
const TAG: u16 = 0xb000;
/// The seconds that the stack holds a packet at most: as long as it waits for the fragments of one.
const HELD: u32 = 32;
/// The part of a tag that is the entry's number.
const NUMBER: u16 = HALVES as u16 - 1;

const _: () = assert!(
    HALVES.is_power_of_two() && TAG & NUMBER == 0,
    "a tag is a mark and a number"
);

/// Returns whether a packet that leaves by this interface is translated there.
#[inline(always)]
pub(crate) fn is_translated_behind(interface: u32) -> bool {
    // SAFETY: the value is not read.
    unsafe { INTERFACES.get(InterfaceRole::attached(interface)) }.is_some()
}

/// Returns whether the packet was handed to the stack by [`hand_over`].
#[inline(always)]
pub(crate) fn is_halfway(context: &impl Access) -> bool {
    context.tag() & !NUMBER == TAG
}

/// Has the rest of the packet's translation to `translated` done where it leaves, and makes
/// `translated` what it is to have in the stack.
pub(crate) fn hand_over<F: Tables>(
    context: &impl Access,
    packet: &Packet<F>,
    translated: &mut Tuple<F>,
) {
    // A later fragment follows the first one.
    if packet.form != Form::LaterFragment {
        let number = number(&packet.tuple.source, translated, packet);
        if let Some(entry) = entry::<F>(number) {
            let now = seconds();
            let protocol = packet.protocol.into();
            if entry.came != packet.tuple || entry.goes != *translated || entry.protocol != protocol
            {
                if entry.used != 0 && elapsed(entry.used, now) <= HELD {
                    entry.taken = now;
                }
                entry.came = packet.tuple;
                entry.goes = *translated;
                entry.protocol = protocol;
            }
            entry.used = now;
            context.set_tag(TAG | number as u16);
        }
    }
    translated.source = packet.tuple.source;
    translated.source_port = packet.tuple.source_port;
}

/// Puts the tuple with which a packet out of the stack goes on into `translated`, if it was handed
/// over by [`hand_over`], or is an error about such a packet; returns whether it is one.
#[inline(always)]
pub(crate) fn take_back<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    translated: &mut Tuple<F>,
) -> bool {
    let tuple = &packet.tuple;
    if packet.form == Form::Error {
        // The tuple is that of a packet that goes the error's way.
        let number = mix::<F>(
            &tuple.destination,
            &tuple.source,
            tuple.destination_port,
            tuple.source_port,
        );
        return entry::<F>(number)
            .filter(|entry| {
                entry.protocol == packet.protocol.into()
                    && entry.came.source == tuple.destination
                    && entry.came.source_port == tuple.destination_port
                    && entry.goes.destination == tuple.source
                    && entry.goes.destination_port == tuple.source_port
            })
            .map(|entry| translated.set_reversed(&entry.came))
            .is_some();
    }
    if !is_halfway(context) {
        return false;
    }
    let Some(entry) = entry::<F>(u32::from(context.tag() & NUMBER)) else {
        return false;
    };
    if entry.protocol != packet.protocol.into()
        || entry.goes.destination != tuple.destination
        || entry.goes.destination_port != tuple.destination_port
        || !has_one_flow(entry, tuple)
    {
        return false;
    }
    origin::let_through::<F>(&entry.came.source, context.came_by());
    *translated = entry.goes;
    true
}

/// Returns whether a packet that leaves with this tuple is one of the entry's flow. Its source shows that, or, if the
/// host's rules have changed that, the entry's past.
#[inline(always)]
fn has_one_flow<F: Tables>(entry: &Halfway<F>, tuple: &Tuple<F>) -> bool {
    entry.came.source == tuple.source && entry.came.source_port == tuple.source_port
        || entry.taken == 0
        || elapsed(entry.taken, seconds()) > HELD
}

/// The entry of this number.
#[inline(always)]
fn entry<F: Tables>(number: u32) -> Option<&'static mut Halfway<F>> {
    let entry = F::halfway().get_ptr_mut(number & u32::from(NUMBER))?;
    // SAFETY: the lookup gave an entry, made of words. Another CPU may write it meanwhile, for
    // another packet: one of the two is not recognised then, as explained above.
    Some(unsafe { &mut *entry })
}

/// The number of the packet from `source` that has otherwise the tuple `translated`.
#[inline(always)]
fn number<F: Tables>(source: &F::Address, translated: &Tuple<F>, packet: &Packet<F>) -> u32 {
    mix::<F>(
        source,
        &translated.destination,
        packet.tuple.source_port,
        translated.destination_port,
    )
}

#[inline(always)]
fn mix<F: Tables>(
    source: &F::Address,
    destination: &F::Address,
    source_port: u16,
    destination_port: u16,
) -> u32 {
    // The golden ratio in 32 bits, odd, as `hash_32` of linux/hash.h has it.
    const RATIO: u32 = 0x61c8_8647;
    let mut mixed = u32::from(source_port) << 16 | u32::from(destination_port);
    for word in source.words() {
        mixed = mixed.wrapping_mul(RATIO) ^ *word;
    }
    for word in destination.words() {
        mixed = mixed.wrapping_mul(RATIO) ^ *word;
    }
    mixed.wrapping_mul(RATIO) >> (u32::BITS - HALVES.trailing_zeros())
}
