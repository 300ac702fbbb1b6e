//! Whoever sent a packet, as a client.

use crate::{
    lb::{client::Client, foresight::drawn},
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

impl<F: Tables> Client<F> for Sender<F> {
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

    #[inline(always)]
    fn draw(&self) -> u32 {
        drawn::<F>()
    }
}
