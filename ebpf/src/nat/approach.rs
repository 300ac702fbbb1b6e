//! Prefetch of the entries that a new connection will need of the table.
//!
//! Of a table larger than the caches both halves' homes are lines that the CPU has to wait for, a
//! good part of what a first packet costs. It waits for both at once if their loads are near to each
//! other, and not one after the other if parsing and the choice of a backend are between them.

use shunt_common::{
    Backend,
    connections::{Key, Role},
};

use crate::{maps::tables::Tables, nat::create::is_likely_to_keep_source, packet::segment::Ports};

/// Has the homes of the connection on their way that a packet with this key, of a client, is about
/// to open to `backend`: only where its source port is known already.
#[inline(always)]
pub(crate) fn approach<F: Tables>(forward: &Key<F>, backend: &Backend<F>) {
    let (client, _) = F::unpack(&forward.addresses);
    if !is_likely_to_keep_source(&client, backend) {
        return;
    }
    let Some(opening) = F::openings().get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let reply = unsafe { &mut (*opening).connection.reply };
    let [client_port, _]: [u16; 2] = bytemuck::cast(forward.ports);
    *reply = Key::of_words(
        F::pack(backend.address, client),
        Ports {
            source: backend.port,
            destination: client_port,
        }
        .word(),
        forward.protocol(),
        Role::Reply,
    );
    F::connections().approach([forward, reply]);
}
