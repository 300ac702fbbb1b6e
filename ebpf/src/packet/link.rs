//! Headers before the network header.

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
    /// Returns the offset of the network header.
    #[inline(always)]
    pub(crate) const fn header_length(self) -> usize {
        match self {
            Self::Ethernet => 14,
            Self::None => 0,
        }
    }
}

/// A link address, as it stands in a frame.
type LinkAddress = [u16; 3];

/// The link address of a station that frames are compared with, in as few words as it takes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Station {
    begin: u32,
    end: u16,
}

impl Station {
    /// The one with this address.
    #[inline(always)]
    pub(crate) fn at(address: [u8; 6]) -> Self {
        let [begin @ .., fifth, sixth] = address;
        Self {
            begin: u32::from_ne_bytes(begin),
            end: u16::from_ne_bytes([fifth, sixth]),
        }
    }
}

/// The addresses of an Ethernet header. In words, and aligned as the headers behind it are: byte by
/// byte, a copy would be 24 instructions.
#[repr(C, align(4))]
#[derive(Clone, Copy)]
pub(crate) struct EthernetAddresses {
    pub destination: LinkAddress,
    pub source: LinkAddress,
}

impl EthernetAddresses {
    /// Returns whether the frame is for this station.
    #[inline(always)]
    pub(crate) fn is_for(&self, station: &Station) -> bool {
        let Station { begin, end } = *station;
        // SAFETY: the first word is there, and aligned as this is.
        let word = unsafe { *(&raw const *self).cast::<u32>() };
        word == begin && self.destination[2] == end
    }
}
