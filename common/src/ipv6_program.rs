//! The programs of IPv6, which packets get to by a tail call.

/// A program of IPv6, by its index among those that the attached ones hand packets over to.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipv6Program {
    /// At the ingress of an interface.
    Ingress = 0,
    /// At its egress.
    Egress = 1,
    /// At the ingress of an interface whose packets have no link header.
    IngressL3 = 2,
    /// At its egress.
    EgressL3 = 3,
}

impl Ipv6Program {
    /// Number of them.
    pub const COUNT: u32 = 4;
}
