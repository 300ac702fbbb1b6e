//! The two address families that everything else is generic over.

use core::{fmt::Debug, hash::Hash};

use bytemuck::Pod;

/// An address family: one source for both, two instances.
pub trait Family: Copy + Debug + Eq + Hash + 'static {
    /// An address as it stands in a packet.
    type Address: Address;
}

/// An IP address in network order, made of 32-bit words.
pub trait Address: Pod + Copy + Debug + Ord + Hash + Send + Sync {
    /// The address's words, for sums and masks.
    fn words(&self) -> &[u32];

    /// Returns whether this is the unspecified address, all bits 0, which no host has.
    #[inline]
    fn is_unspecified(&self) -> bool {
        self.words().iter().all(|word| *word == 0)
    }

    /// Returns whether this address and `other` agree in every bit of `mask`.
    #[inline]
    fn matches(&self, other: &Self, mask: &Self) -> bool {
        self.words()
            .iter()
            .zip(other.words())
            .zip(mask.words())
            .all(|((a, b), m)| (a ^ b) & m == 0)
    }

    /// This address, but for the bits of its last word that `mask` has not: these are those of `bits`.
    #[must_use]
    fn with_bits(self, mask: &Self, bits: u32) -> Self;
}

/// IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum V4 {}

impl Family for V4 {
    type Address = u32;
}

impl Address for u32 {
    #[inline]
    fn words(&self) -> &[u32] {
        core::slice::from_ref(self)
    }

    #[inline]
    fn with_bits(self, mask: &Self, bits: u32) -> Self {
        self & mask | bits & !mask
    }
}

/// IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum V6 {}

impl Family for V6 {
    type Address = [u32; 4];
}

impl Address for [u32; 4] {
    #[inline]
    fn words(&self) -> &[u32] {
        self
    }

    #[inline]
    fn with_bits(mut self, mask: &Self, bits: u32) -> Self {
        self[3] = self[3].with_bits(&mask[3], bits);
        self
    }
}
