//! Where the two ends of a connection are, and so whose source address a backend gets to see.

use shunt_common::{Address as _, Backend, Counter, NodeIps};

use crate::family::Family;

/// Whether the client is on this node: one of its pods, or the node itself. Nobody has the
/// unspecified address, which is what a free place among the node's holds.
#[inline(always)]
pub fn is_here<F: Family>(client: &F::Address) -> bool {
    F::is_of_pod(client)
        || !client.is_unspecified()
            && F::node()
                .get(0)
                .is_some_and(|node| node.own.contains(client))
}

/// Whether no pod of this node has an address that a frontend has or had.
#[inline(always)]
pub fn are_pods_no_frontends<F: Family>() -> bool {
    F::node()
        .get(0)
        .is_some_and(|node| node.pod_frontends == NodeIps::<F>::NEVER)
}

/// The source address with which a connection of `client` goes on to `backend`.
///
/// It is the client's own wherever the replies come back through this node by themselves. A pod
/// that reaches itself gets the hairpin address, since it would not take a packet from its own. A
/// connection from outside to a backend on another node goes on from this node (SNAT). `Err` is
/// why it cannot.
#[inline(always)]
pub fn source_for<F: Family>(
    client: F::Address,
    backend: &Backend<F>,
) -> Result<F::Address, Counter> {
    if backend.address == client {
        return Ok(F::hairpin_ip());
    }
    if backend.flags & Backend::<F>::LOCAL != 0 || is_here::<F>(&client) {
        return Ok(client);
    }
    match F::node().get(0) {
        Some(node) if !node.snat.is_unspecified() => Ok(node.snat),
        _ => Err(Counter::DropNoNodeIp),
    }
}
