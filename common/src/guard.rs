//! The guard: what becomes of packets for services' addresses that are for none of their frontends.

use bytemuck::{Pod, Zeroable};

use crate::{Address, Cidr, Family, V4, V6};

/// The largest number of ranges a family.
const CAPACITY: usize = 8;

/// The ranges that ClusterIPs are taken from.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceCidrs<F: Family> {
    /// Number of `cidrs` in use.
    pub count: u32,
    /// The ranges.
    pub cidrs: [Cidr<F>; CAPACITY],
}

const _: () = assert!(size_of::<ServiceCidrs<V4>>() == 4 + 8 * CAPACITY);
const _: () = assert!(size_of::<ServiceCidrs<V6>>() == 4 + 32 * CAPACITY);

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for ServiceCidrs<F> {}
// SAFETY: `repr(C)`, every field is made of words, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for ServiceCidrs<F> {}

impl<F: Family> ServiceCidrs<F> {
    /// The largest number of ranges a family.
    pub const CAPACITY: usize = CAPACITY;
}

/// The owner of a guarded address.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarded {
    /// A service's ClusterIP.
    ClusterIp = 1,
    /// A service's external or load balancer address, which may be a machine's too.
    External = 2,
    /// One of this host's own, which looks after it itself.
    Host = 3,
    /// One of another node, which does.
    Node = 4,
}

impl Guarded {
    /// The variant with this number.
    #[inline]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::ClusterIp),
            2 => Some(Self::External),
            3 => Some(Self::Host),
            4 => Some(Self::Node),
            _ => None,
        }
    }
}

/// The place of an address in the filter of addresses: a blocked Bloom filter (F. Putze, P. Sanders, J. Singler, 2007)
/// of addresses that have frontends, and beside it one of those that are guarded. One bit of each word stands for all
/// addresses there that SNAT gives.
///
/// Most packets are for no service at all. One word shows it for nearly all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterPlace {
    /// Index of the word in the filter.
    pub word: u32,
    /// The bits of that word, of either half, that are all set if the address is in; but for [`Self::SOURCE`].
    mask: u32,
}

impl FilterPlace {
    /// Number of words in the filter: 32 KiB.
    pub const WORDS: usize = 4096;

    /// The bit of a word that is set if SNAT gives an address which has its place there.
    pub const SOURCE: u64 = 1 << 63;

    /// The place of `address`.
    #[inline]
    pub fn of<A: Address>(address: &A) -> Self {
        // 2^64 divided by the golden ratio (D. Knuth, The Art of Computer Programming, section 6.4).
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let words = address.words().iter();
        let hash = words.fold(0_u64, |hash, word| {
            (hash ^ hash >> 32 ^ u64::from(*word)).wrapping_mul(FACTOR)
        });
        let bit = |shift: u32| 1 << (hash >> shift & 31);
        Self {
            word: (hash >> 52) as u32,
            mask: bit(47) | bit(42) | bit(37),
        }
    }

    /// Returns whether frontends may have the address, if its word is this. If not, none has.
    #[inline]
    pub const fn has_frontends(self, word: u64) -> bool {
        word as u32 & self.mask == self.mask
    }

    /// Returns whether the address may be guarded, if its word is this. If not, it is none by itself.
    #[inline]
    pub const fn is_guarded(self, word: u64) -> bool {
        (word | Self::SOURCE) >> 32 & self.mask as u64 == self.mask as u64
    }

    /// Returns whether SNAT may give connections the address, if its word is this. If not, it does not.
    #[inline]
    pub const fn is_source(self, word: u64) -> bool {
        word & Self::SOURCE != 0
    }

    /// The word with the address among those that have frontends.
    #[must_use]
    pub const fn with_frontends(self, word: u64) -> u64 {
        word | self.mask as u64
    }

    /// The word with the address among those that are guarded.
    #[must_use]
    pub const fn with_guarded(self, word: u64) -> u64 {
        word | (self.mask as u64) << 32 & !Self::SOURCE
    }

    /// The word with the address among those that SNAT gives.
    #[must_use]
    pub const fn with_source(self, word: u64) -> u64 {
        word | Self::SOURCE
    }
}

/// The bit of a word that stands for all ports with the same upper six bits as `port`, network order. A word has those
/// of the ports that frontends have: it shows, for the ports that a host gives its own connections, that no frontend
/// has them.
#[inline]
pub const fn port_group(port: u16) -> u64 {
    1 << (u16::from_be(port) >> 10)
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;

    #[test]
    fn the_bit_of_sources_is_of_no_other_kind() {
        for number in 0..100_000_u32 {
            let place = FilterPlace::of(&number);
            let guarded = place.with_guarded(0);
            assert!(place.is_guarded(guarded) && !place.is_source(guarded));
            let source = place.with_source(0);
            assert!(place.is_source(source) && !place.has_frontends(source));
            let is_of_no_bit_else = guarded == 0;
            assert_eq!(place.is_guarded(source), is_of_no_bit_else, "{number}");
        }
    }

    #[test]
    fn what_is_in_the_filter_is_found_and_little_else() {
        let mut words = vec![0; FilterPlace::WORDS];
        let address = |number: u32| (0x0a60_0000_u32 + number).to_be();
        for number in 0..5000 {
            let place = FilterPlace::of(&address(number));
            let word = &mut words[place.word as usize];
            *word = place.with_frontends(*word);
            if number % 2 == 0 {
                *word = place.with_guarded(*word);
            }
        }
        let found = |address: u32| {
            let place = FilterPlace::of(&address);
            let word = words[place.word as usize];
            (place.has_frontends(word), place.is_guarded(word))
        };
        for number in 0..5000 {
            let (has_frontends, is_guarded) = found(address(number));
            assert!(has_frontends && (is_guarded || number % 2 == 1), "{number}");
        }
        let others: Vec<u32> = (0..20_000)
            .map(|number| (0x0af4_0000_u32 + number).to_be())
            .collect();
        let wrong = others.iter().filter(|other| found(**other).0).count();
        assert!(wrong < 200, "{wrong} of 20,000 are taken for others");
    }

    #[test]
    fn addresses_of_ipv6_differ_by_each_word() {
        let mut seen = Vec::new();
        for place in 0..4 {
            for word in [1_u32, 2, 0x0100_0000, 0x8000_0000] {
                let mut address = [0xfd00_u32, 0, 0, 0x0a];
                address[place] ^= word;
                seen.push(FilterPlace::of(&address));
            }
        }
        let count = seen.len();
        seen.sort_by_key(|place| (place.word, place.mask));
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
