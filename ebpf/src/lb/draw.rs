//! The number by which a connection gets its backend, made of its first packet.
//!
//! With XDP two programs see a packet one after the other. If the first leaves it to the second, for
//! the chosen backend is on this node, the second has to choose the same: drawn twice, backends
//! elsewhere would get more than their share.
//!
//! If a share of the connections is refused, each SYN of one attempt to connect has to get the same. ICMP errors are
//! limited, and a client that gets none sends its SYN again. If each SYN drew anew, the refused share would shrink as the
//! number of refusals grows.

use shunt_common::{
    V4, V6,
    connections::{Key, Role},
};

use crate::{
    lb::key,
    maps::{
        clock::now,
        constants::{CONNTRACK_SEEDS, is_chosen_by_packet},
        tables::Tables,
    },
    packet::parsed::Packet,
};

/// A family with the subprograms that make the number.
pub(crate) trait Draw: Tables {
    /// [`draw`].
    fn draw(packet: &Packet<Self>);

    /// Makes the number of an attempt to open the connection with this key. Its SYNs have this sequence number; in SCTP,
    /// its INITs have this tag. Only a party with the tables' seeds can foresee the number.
    fn number(key: &Key<Self>, sequence: u32) -> u32;
}

/// Has the next connection that this CPU opens get its backend by the packet, if that is how backends
/// are chosen.
#[inline(always)]
pub(crate) fn prepare<F: Draw>(packet: &Packet<F>) {
    if is_chosen_by_packet() {
        F::draw(packet);
    }
}

/// Makes a number that only a party with the tables' seeds can foresee. With time it becomes
/// another one: a client that tries again does not find what it found before for ever.
#[inline(always)]
fn draw<F: Tables>(packet: &Packet<F>) {
    // The golden ratio in 32 bits, odd, as `hash_32` of linux/hash.h has it.
    const RATIO: u32 = 0x61c8_8647;
    let Packet {
        tuple, protocol, ..
    } = packet;
    let key = Key::new(tuple, *protocol, Role::Forward);
    let number = CONNTRACK_SEEDS.load().hash(&key) ^ now().wrapping_mul(RATIO);
    // Always there: the table has an entry for each CPU.
    let Some(opening) = F::openings().get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through. 0
    // would mean that nothing is drawn.
    unsafe { (*opening).drawn = number.max(1) };
}

/// Returns the [`Draw::number`] of the packet that this CPU is at, if that is a SYN or an INIT. No field of a datagram
/// distinguishes a repetition from another attempt.
#[inline(always)]
pub(crate) fn of_attempt<F: Draw>() -> Option<u32> {
    let arrival = F::arrivals().get_ptr(0)?;
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let packet = unsafe { &(*arrival).packet };
    if !packet.signal.opens() {
        return None;
    }
    let key = key::make(&packet.tuple, packet.protocol)?;
    Some(F::number(key, packet.signal.number()))
}

/// Makes a family's subprograms, each of which the verifier looks at by itself.
macro_rules! drawing {
    ($family:ty: $draw:ident, $number:ident) => {
        impl Draw for $family {
            #[inline(always)]
            fn draw(packet: &Packet<Self>) {
                $draw(packet);
            }

            #[inline(always)]
            fn number(key: &Key<Self>, sequence: u32) -> u32 {
                $number(key, sequence)
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $draw(packet: *const Packet<$family>) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            if let Some(packet) = unsafe { packet.as_ref() } {
                draw(packet);
            }
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $number(key: *const Key<$family>, sequence: u32) -> u32 {
            // SAFETY: null, or the reference that the only callers have.
            match unsafe { key.as_ref() } {
                Some(key) => CONNTRACK_SEEDS.load().hash_numbered(key, sequence),
                None => 0,
            }
        }
    };
}

drawing!(V4: draw_v4, number_v4);
drawing!(V6: draw_v6, number_v6);
