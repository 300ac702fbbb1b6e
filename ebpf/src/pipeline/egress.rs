//! Packets that go out: to a client from a backend, so back to the frontend's address; or out of
//! the stack, which was given them half translated.

use shunt_common::{Counter, Hook};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::stack,
    maps::counters::{count, drop_packet},
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
    let mut packet = Packet::<F>::none();
    if !F::parse(context, link, &mut packet) {
        return Verdict::PASS;
    }
    let packet = &packet;
    let mut translated = bytemuck::Zeroable::zeroed();
    let is_known = match packet.form {
        Form::LaterFragment => fragments::recall(packet, Hook::Egress, &mut translated),
        _ => {
            stack::take_back(context, packet, &mut translated)
                || reverse::at_egress(packet, &mut translated)
        }
    };
    if !is_known {
        return Verdict::PASS;
    }
    fragments::remember(packet, Hook::Egress, &translated);
    if F::rewrite(context, packet, &translated).is_err() {
        return drop_packet(context, Counter::DropRewrite);
    }
    count(counter_of(packet.form, Counter::Reply));
    Verdict::PASS
}
