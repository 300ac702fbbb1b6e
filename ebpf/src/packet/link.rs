//! What the network header is preceded by.

/// The kind of a link.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// An Ethernet header without tags; the kernel keeps a tag beside the packet.
    Ethernet,
    /// Nothing: tunnels, tun, WireGuard.
    None,
}

impl Link {
    /// Where the network header begins.
    #[inline(always)]
    pub(crate) const fn header_length(self) -> usize {
        match self {
            Self::Ethernet => 14,
            Self::None => 0,
        }
    }
}

/// The addresses of an Ethernet header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EthernetAddresses {
    pub destination: [u8; 6],
    pub source: [u8; 6],
}
