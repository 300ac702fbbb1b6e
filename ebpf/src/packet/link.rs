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

/// A link address, as it stands in a frame.
pub(crate) type LinkAddress = [u16; 3];

/// The addresses of an Ethernet header. In words, and aligned as the headers behind it are: byte by
/// byte, a copy would be 24 instructions.
#[repr(C, align(4))]
#[derive(Clone, Copy)]
pub(crate) struct EthernetAddresses {
    pub destination: LinkAddress,
    pub source: LinkAddress,
}
