//! The key of a packet's connection, made where it goes if the connection is opened: on the stack is no room for it.

use shunt_common::{
    Tuple,
    connections::{Key, Role},
};

use crate::maps::tables::Tables;

/// Makes the key of packets with this tuple, in their original direction.
#[inline(always)]
pub(crate) fn make<F: Tables>(tuple: &Tuple<F>, protocol: u8) -> Option<&'static Key<F>> {
    let opening = F::openings().get_ptr_mut(0)?;
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let key = unsafe { &mut (*opening).connection.forward };
    *key = Key::new(tuple, protocol, Role::Forward);
    Some(key)
}
