//! Translated packets that leave by another interface than the stack's rules chose, see [`crate::forward::leaving`].

use shunt_common::{Cell, FrontendKey, Tuple};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{
        fib::Routed,
        leaving::{self, LeavingIndex},
    },
    lb::frontend,
    maps::addresses::{is_of_pod, is_pod_interface},
    packet::parsed::Packet,
};

/// Outcome of a packet that is about to leave.
#[derive(Clone, Copy)]
pub(crate) enum Leave {
    /// It leaves where it is.
    Here,
    /// It leaves elsewhere.
    Elsewhere(LeavingIndex),
    /// It leaves nowhere.
    Over(Verdict),
}

impl Leave {
    /// As a BPF subprogram returns it.
    #[inline(always)]
    pub(crate) fn to_value(self) -> u64 {
        match self {
            Self::Here => 0,
            Self::Over(verdict) => u64::from(Verdict::to_value(Some(verdict)).cast_unsigned()),
            Self::Elsewhere(index) => u64::from(index.number() + 1) << 32,
        }
    }

    /// Reads the value that a BPF subprogram has returned.
    #[inline(always)]
    pub(crate) fn from_value(value: u64) -> Self {
        match (value >> 32) as u32 {
            0 => match Verdict::from_value((value as u32).cast_signed()) {
                Some(verdict) => Self::Over(verdict),
                None => Self::Here,
            },
            number => Self::Elsewhere(LeavingIndex::of_number(number - 1)),
        }
    }
}

/// Returns whether a packet of this protocol is to leave elsewhere with the tuple `leaves`.
#[inline(always)]
pub(crate) fn is_elsewhere<F: Routed>(
    context: &impl Access,
    leaves: &Tuple<F>,
    protocol: u8,
) -> bool {
    find(context, leaves, protocol).is_some()
}

/// Decides where a packet leaves that is to have the tuple `translated`, and has it still to get.
#[inline(always)]
pub(crate) fn decide<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    translated: &Tuple<F>,
) -> Leave {
    // The error of a router behind the backend keeps its source.
    if packet.is_error() && packet.inner.reporter != packet.tuple.source {
        return Leave::Here;
    }
    let Some(index) = find(context, translated, packet.protocol) else {
        return Leave::Here;
    };
    match index.narrow(context, packet) {
        Some(mtu) => Leave::Over(leaving::report_too_long(context, packet, mtu)),
        None => Leave::Elsewhere(index),
    }
}

#[inline(always)]
fn find<F: Routed>(context: &impl Access, leaves: &Tuple<F>, protocol: u8) -> Option<LeavingIndex> {
    // The host's own socket has chosen its source before its route.
    if context.came_by() == 0 {
        return None;
    }
    leaving::find(context, leaves, protocol, || {
        is_inside(context, leaves, protocol)
    })
}

/// Returns whether the packet is one of the cluster's inside, whose routes may be in tables for pods' addresses alone: from
/// a ClusterIP, or to a pod of this node.
#[inline(always)]
fn is_inside<F: Routed>(context: &impl Access, leaves: &Tuple<F>, protocol: u8) -> bool {
    let key = FrontendKey::new(leaves.source, leaves.source_port, protocol);
    is_of_pod::<F>(&leaves.destination)
        || is_pod_interface(context.interface())
        || frontend::cell_of::<F>(key).is_some_and(|cell| cell.has(Cell::CLUSTER_IP))
}
