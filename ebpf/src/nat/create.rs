//! Creation of a connection's entries.

use shunt_common::{Address as _, Backend, Counter, Tuple};

use crate::{
    maps::{addresses::is_on_this_node, backends::Choice, tables::Tables},
    nat::ports,
    packet::parsed::Packet,
};

/// Creates the entries of the packet's connection from `source` to the chosen backend, the reply's
/// first, so that no packet goes out whose reply would not be understood. Puts the tuple that the packet is
/// to leave with into `translated`; `Err` is why there is none.
#[inline(always)]
pub(crate) fn create<F: Tables>(
    packet: &Packet<F>,
    choice: &Choice<F>,
    source: &F::Address,
    translated: &mut Tuple<F>,
) -> Result<(), Counter> {
    // Always there: the table has an entry for each CPU.
    let Some(search) = F::searches().get_ptr_mut(0) else {
        return Err(Counter::DropConntrackFull);
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let search = unsafe { &mut *search };
    ports::claim(search, packet, choice, source)?;
    *translated = search.connection.translated;
    search.connection.finish()
}

/// The source address with which a connection of `client` goes on to `backend`.
///
/// It is the client's own wherever the replies come back through this node by themselves. A pod
/// of this node that reaches itself gets the hairpin address, since it would not take a packet from
/// its own. A connection from outside to a backend on another node goes on from this node (SNAT),
/// also if that backend is the client: it has no way to the hairpin address. `Err` is why it cannot.
#[inline(always)]
pub(crate) fn source_for<F: Tables>(
    client: F::Address,
    backend: &Backend<F>,
) -> Result<F::Address, Counter> {
    if backend.flags & Backend::<F>::LOCAL != 0 || is_on_this_node::<F>(&client) {
        return Ok(if backend.address == client {
            F::hairpin_ip()
        } else {
            client
        });
    }
    match F::node().get(0) {
        Some(node) if !node.snat.is_unspecified() => Ok(node.snat),
        _ => Err(Counter::DropNoNodeIp),
    }
}
