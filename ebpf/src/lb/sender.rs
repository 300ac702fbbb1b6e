//! Whoever sent a packet, as a client.

use shunt_common::{
    Cell,
    connections::{Key, Role},
};

use crate::{
    lb::{client::Client, foresight::drawn, maglev::Maglev},
    maps::{
        addresses::{is_client_here, is_of_cluster_pod},
        tables::Tables,
    },
};

/// Whoever sent a packet.
pub(crate) struct Sender<F: Tables> {
    pub(crate) address: F::Address,
    /// The index of the interface that the packet came in by.
    pub(crate) interface: u32,
}

impl<F: Maglev> Client<F> for Sender<F> {
    #[inline(always)]
    fn address(&self) -> Option<F::Address> {
        Some(self.address)
    }

    /// Any pod of the cluster counts, if the cluster's range is all that is known: kube-proxy's mode
    /// `ClusterCIDR`.
    #[inline(always)]
    fn is_on_this_node(&self) -> bool {
        let Self { address, interface } = self;
        is_client_here::<F>(address, *interface) || is_of_cluster_pod::<F>(address)
    }

    /// By the packet that this CPU is at. Its key is made where it goes if the connection is opened: on
    /// the stack is no room for it.
    #[inline(always)]
    fn maglev_slot(&self, cell: Cell) -> Option<u32> {
        let arrival = F::arrivals().get_ptr(0)?;
        let opening = F::openings().get_ptr_mut(0)?;
        // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
        let (packet, key) = unsafe { (&(*arrival).packet, &mut (*opening).connection.forward) };
        *key = Key::new(&packet.tuple, packet.protocol, Role::Forward);
        F::slot_of(key, cell)
    }

    #[inline(always)]
    fn draw(&self) -> u32 {
        drawn::<F>()
    }
}
