//! The two ends of a packet: the part of it that translation reads and writes.

use bytemuck::{Pod, Zeroable};

use crate::{Address as _, Family, Sum, V4, V6};

/// Addresses and ports of a packet, all in network order.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuple<F: Family> {
    /// Source address.
    pub source: F::Address,
    /// Destination address.
    pub destination: F::Address,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

const _: () = assert!(size_of::<Tuple<V4>>() == 12, "no padding: 4 + 4 + 2 + 2");
const _: () = assert!(size_of::<Tuple<V6>>() == 36, "no padding: 16 + 16 + 2 + 2");

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for Tuple<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for Tuple<F> {}

impl<F: Family> Tuple<F> {
    /// The tuple of a packet that goes the other way.
    #[inline]
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    /// Makes this the reverse of `other`, in place.
    #[inline]
    pub const fn set_reversed(&mut self, other: &Self) {
        self.source = other.destination;
        self.destination = other.source;
        self.source_port = other.destination_port;
        self.destination_port = other.source_port;
    }

    /// Returns the change of a checksum over the addresses when `self` is replaced by `new`.
    #[inline]
    pub fn address_difference(&self, new: &Self) -> Sum {
        Sum::default()
            .replace_all(self.source.words(), new.source.words())
            .replace_all(self.destination.words(), new.destination.words())
    }

    /// Returns whether `new` has the same ports.
    #[inline]
    pub const fn has_ports_of(&self, new: &Self) -> bool {
        self.source_port == new.source_port && self.destination_port == new.destination_port
    }

    /// The ports as the word that they are in a packet.
    #[inline]
    pub fn port_word(&self) -> u32 {
        bytemuck::cast([self.source_port, self.destination_port])
    }

    /// Returns the change of a checksum over the ports when `self` is replaced by `new`.
    #[inline]
    pub fn port_difference(&self, new: &Self) -> Sum {
        Sum::default()
            .replace(self.source_port.into(), new.source_port.into())
            .replace(self.destination_port.into(), new.destination_port.into())
    }
}
