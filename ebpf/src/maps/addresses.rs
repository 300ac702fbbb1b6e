//! Addresses of this node's pods, and of the node itself.
//!
//! Pods are known by ranges of addresses, or by the interface that they are behind. Whichever it is, it
//! answers the same questions: whether a client is on this node, and whether a destination is.

use aya_ebpf::Global;
use shunt_common::{Address as _, Cidr, Family, InterfaceRole, NodeIps, PodCidrs};

use crate::maps::{
    constants::{Constants, are_pods_told_by_interface},
    tables::{DIRECT, INTERFACES, Tables},
};

/// Returns whether a pod of this node has the address, as far as addresses show.
#[inline(always)]
pub(crate) fn is_of_pod<F: Constants>(address: &F::Address) -> bool {
    is_in(F::pod_cidrs(), address)
}

/// Returns whether a pod of the cluster has the address, on whatever node.
#[inline(always)]
pub(crate) fn is_of_cluster_pod<F: Constants>(address: &F::Address) -> bool {
    is_in(F::cluster_cidrs(), address)
}

/// Returns whether envelopes may come from the address, though no node has it.
#[inline(always)]
pub(crate) fn is_dsr_source<F: Constants>(address: &F::Address) -> bool {
    is_in(F::dsr_sources(), address)
}

/// Returns whether envelopes of ours come from a range of addresses. The verifier knows the answer.
#[inline(always)]
pub(crate) fn has_dsr_sources<F: Constants>() -> bool {
    let ranges = (&raw const *F::dsr_sources()).cast::<PodCidrs<F>>();
    // SAFETY: as in `range`.
    unsafe { (&raw const (*ranges).count).read_volatile() != 0 }
}

/// The range that envelopes of ours come from, if it is not this node's own address.
#[inline(always)]
pub(crate) fn dsr_sources<F: Constants>() -> Option<Cidr<F>> {
    range(F::dsr_sources(), 0)
}

/// Returns whether other programs or queueing disciplines handle the packets of the interface, which is a pod's. A
/// function of its own: its callers' stack is short.
#[inline(never)]
pub(crate) fn is_screened(interface: u32) -> bool {
    // SAFETY: the value is not read.
    unsafe { INTERFACES.get(InterfaceRole::screened(interface)) }.is_some()
}

/// Returns whether only pods of this node are behind the interface.
#[inline(always)]
pub(crate) fn is_pod_interface(interface: u32) -> bool {
    // SAFETY: the value is not read.
    are_pods_told_by_interface()
        && unsafe { INTERFACES.get(InterfaceRole::of_pods(interface)) }.is_some()
}

/// Returns whether the client whose packet came in by the interface is on this node: one of its pods, or the
/// node itself.
#[inline(always)]
pub(crate) fn is_client_here<F: Tables>(client: &F::Address, interface: u32) -> bool {
    is_on_this_node::<F>(client) || is_pod_interface(interface)
}

/// Returns whether one of the ranges has the address.
#[inline(always)]
fn is_in<F: Family>(ranges: &'static Global<PodCidrs<F>>, address: &F::Address) -> bool {
    // Read range by range: all of them at once are a quarter of a program's stack.
    for place in 0..PodCidrs::<F>::CAPACITY {
        let Some(range) = range(ranges, place) else {
            break;
        };
        if address.matches(&range.address, &range.mask) {
            return true;
        }
    }
    false
}

/// The range at this place, if there are as many.
#[inline(always)]
fn range<F: Family>(ranges: &'static Global<PodCidrs<F>>, place: usize) -> Option<Cidr<F>> {
    let ranges = (&raw const *ranges).cast::<PodCidrs<F>>();
    // SAFETY: a global is as the value in it, which is there and of words; volatile as
    // `Global::load`, since the agent writes it before the program is loaded.
    let count = unsafe { (&raw const (*ranges).count).read_volatile() };
    // The verifier knows the count, and leaves out what is read in vain.
    // SAFETY: as before.
    let read = || unsafe { (&raw const (*ranges).cidrs[place]).read_volatile() };
    ((place as u32) < count).then(read)
}

/// Returns whether the client is on this node, as far as addresses show. No host has the unspecified address,
/// which is what a free place among the node's holds.
#[inline(always)]
pub(crate) fn is_on_this_node<F: Tables>(client: &F::Address) -> bool {
    is_of_pod::<F>(client) || is_own::<F>(client)
}

/// Returns whether this node has the address.
#[inline(always)]
pub(crate) fn is_own<F: Tables>(address: &F::Address) -> bool {
    let Some(node) = F::node().get(0) else {
        return false;
    };
    let end = |address: &F::Address| address.words().last().copied();
    // Most packets are for other hosts, which the last words show alone.
    node.own.iter().any(|own| end(own) == end(address))
        && !address.is_unspecified()
        && node.own.contains(address)
}

/// Returns whether no pod of this node has an address that a frontend has or had.
#[inline(always)]
pub(crate) fn are_pods_no_frontends<F: Tables>() -> bool {
    F::node()
        .get(0)
        .is_some_and(|node| node.pod_frontends == NodeIps::<F>::NEVER)
}

/// Returns whether connections to pods themselves may have been given other source ports.
#[inline(always)]
pub(crate) fn is_any_direct() -> bool {
    DIRECT.get(0).is_some_and(|[pods, ..]| *pods != 0)
}

/// Returns whether connections of this node's own may have gone out from a frontend's address and port.
#[inline(always)]
pub(crate) fn is_any_own() -> bool {
    DIRECT.get(0).is_some_and(|[_, _, own, _]| *own != 0)
}

/// Returns whether connections of this node's own may have been, where they go out.
#[inline(always)]
pub(crate) fn is_any_masqueraded() -> bool {
    DIRECT.get(0).is_some_and(|[_, own, ..]| *own != 0)
}
