//! The two hooks of an interface.

use aya::programs::TcAttachType;

use crate::{
    attach::link_layer::LinkLayer,
    object::programs::{EGRESS, EGRESS_L3, INGRESS, INGRESS_L3},
};

/// Hook for a program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hook {
    /// Packets to the interface's other side.
    Egress,
    /// Packets from there.
    Ingress,
}

impl Hook {
    /// The way back first: no request goes out whose reply would not be understood.
    pub(crate) const ALL: [Self; 2] = [Self::Egress, Self::Ingress];

    /// The name in pins.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
        }
    }

    /// The hook of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }

    /// The name of its program for packets that begin so.
    pub(crate) const fn program(self, layer: LinkLayer) -> &'static str {
        match (self, layer) {
            (Self::Egress, LinkLayer::Ethernet) => EGRESS,
            (Self::Ingress, LinkLayer::Ethernet) => INGRESS,
            (Self::Egress, LinkLayer::None) => EGRESS_L3,
            (Self::Ingress, LinkLayer::None) => INGRESS_L3,
        }
    }

    /// As aya calls it.
    pub(crate) const fn attach_type(self) -> TcAttachType {
        match self {
            Self::Egress => TcAttachType::Egress,
            Self::Ingress => TcAttachType::Ingress,
        }
    }
}
