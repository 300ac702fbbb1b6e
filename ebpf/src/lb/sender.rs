//! Sender of a packet, as a client.

use shunt_common::Cell;

use crate::{
    lb::{
        client::Client,
        draw::{Draw, of_attempt},
        foresight::drawn,
        maglev::{Maglev, slot_for},
    },
    maps::{
        addresses::{is_client_here, is_of_cluster_pod},
        tables::Tables,
    },
};

/// Sender of a packet.
pub(crate) struct Sender<F: Tables> {
    pub(crate) address: F::Address,
    /// The index of the interface that the packet came in by.
    pub(crate) interface: u32,
    /// [`Client::is_for_own`].
    pub(crate) is_for_own: bool,
}

impl<F: Draw + Maglev> Client<F> for Sender<F> {
    #[inline(always)]
    fn address(&self) -> Option<F::Address> {
        Some(self.address)
    }

    /// Any pod of the cluster counts, if the cluster's range is all that is known: kube-proxy's mode
    /// `ClusterCIDR`.
    #[inline(always)]
    fn is_on_this_node(&self) -> bool {
        let Self {
            address, interface, ..
        } = self;
        is_client_here::<F>(address, *interface) || is_of_cluster_pod::<F>(address)
    }

    /// By the packet that this CPU is at.
    #[inline(always)]
    fn maglev_slot(&self, cell: Cell) -> Option<u32> {
        let arrival = F::arrivals().get_ptr(0)?;
        // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
        let packet = unsafe { &(*arrival).packet };
        slot_for(&packet.tuple, packet.protocol, cell)
    }

    #[inline(always)]
    fn is_for_own(&self) -> bool {
        self.is_for_own
    }

    /// The number of the attempt to connect, if a share is refused and the packet that this CPU is at is a SYN or an INIT.
    #[inline(always)]
    fn draw(&self, cell: Cell) -> u32 {
        let of_attempt = if cell.has(Cell::REFUSES) {
            of_attempt::<F>()
        } else {
            None
        };
        of_attempt.unwrap_or_else(drawn::<F>)
    }
}
