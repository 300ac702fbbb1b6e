//! Packets that go out: to a client from a backend, so back to the frontend's address; or out of
//! the stack, which was given them half translated.

use shunt_common::{Counter, Hook};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::stack,
    maps::{
        counters::{count, drop_packet},
        scratch::Arrival,
    },
    nat::{fragments, reverse},
    packet::{
        link::Link,
        parsed::{Form, Packet},
    },
    pipeline::{forward::counter_of, program::Program},
};

/// Gives a reply of a translated connection its frontend's address; passes every other packet
/// untouched.
#[inline(always)]
pub(crate) fn handle<F: Program<C>, C: Access>(context: &C, link: Link) -> Verdict {
    // Always there: the table has an entry for each CPU.
    let Some(arrival) = F::arrivals().get_ptr_mut(0) else {
        return Verdict::PASS;
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let Arrival { packet, translated } = unsafe { &mut *arrival };
    *packet = Packet::none();
    if !F::parse(context, link, packet) {
        return Verdict::PASS;
    }
    let is_known = match packet.form {
        Form::LaterFragment => fragments::recall(packet, Hook::Egress, translated),
        _ => {
            stack::take_back(context, packet, translated) || reverse::at_egress(packet, translated)
        }
    };
    if !is_known {
        return Verdict::PASS;
    }
    fragments::remember(packet, Hook::Egress, translated);
    if F::rewrite(context, packet, translated).is_err() {
        return drop_packet(context, Counter::DropRewrite);
    }
    count(counter_of(packet.form, Counter::Reply));
    Verdict::PASS
}
