//! The Internet checksum's arithmetic: sums in one's complement (RFC 1071), updated by
//! differences (RFC 1624).

use bytemuck::{Pod, Zeroable};

/// A one's complement sum of 16-bit words, not yet folded.
///
/// Words are summed as they stand in memory; RFC 1071 section 2(B) shows that the byte order does
/// not matter as long as it is the same for all. 64 bits hold the carries of 2^32 additions, so
/// they are folded in once, at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum after `old` was replaced by `new` in what it covers.
    #[inline]
    #[must_use]
    pub const fn replace(self, old: u32, new: u32) -> Self {
        Self(self.0 + !old as u64 + new as u64)
    }

    /// The sum after the words `old` were replaced by `new`, as many.
    #[inline]
    #[must_use]
    pub fn replace_all(self, old: &[u32], new: &[u32]) -> Self {
        old.iter()
            .zip(new)
            .fold(self, |sum, (old, new)| sum.replace(*old, *new))
    }

    /// The sum with another word in what it covers.
    #[inline]
    #[must_use]
    pub const fn with(self, word: u32) -> Self {
        Self(self.0 + word as u64)
    }

    /// The sum after another change besides this one.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The sum in 16 bits; it is of 2^6 words at most.
    #[inline]
    pub const fn fold(self) -> Folded {
        // 2^38 at most, then 2^22 + 2^16, 2^16 + 2^6, and the last carry.
        let sum = (self.0 & 0xffff) + (self.0 >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        Folded(sum as u16)
    }

    /// As [`Folded::apply`].
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        self.fold().apply(checksum)
    }
}

/// A sum with its carries folded in.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Folded(u16);

impl Folded {
    /// The sum as the kernel's checksum helpers take it (`__wsum`).
    #[inline]
    pub const fn to_wsum(self) -> u32 {
        self.0 as u32
    }

    /// Returns whether it is 0, of which one's complement has two.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0 || self.0 == 0xffff
    }

    /// The checksum field `checksum` (as it stands in the packet) after this difference.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
        !self.add_to(!checksum)
    }

    /// The sum `sum` after this difference: what `CHECKSUM_PARTIAL` has in the place of a
    /// checksum.
    #[inline]
    pub const fn add_to(self, sum: u16) -> u16 {
        let sum = self.0 as u32 + sum as u32;
        ((sum & 0xffff) + (sum >> 16)) as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The checksum of `words`, from the definition.
    fn checksum(words: &[u16]) -> u16 {
        let mut sum: u64 = words.iter().map(|word| u64::from(*word)).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    fn words(value: u32) -> [u16; 2] {
        [value as u16, (value >> 16) as u16]
    }

    proptest! {
        #[test]
        fn a_difference_gives_what_summing_anew_gives(
            fixed in proptest::collection::vec(1u16.., 1..20),
            old: [u32; 2],
            new: [u32; 2],
        ) {
            let whole = |pair: [u32; 2]| {
                let mut all = fixed.clone();
                all.extend(pair.into_iter().flat_map(words));
                checksum(&all)
            };
            let difference = Sum::default().replace(old[0], new[0]).replace(old[1], new[1]);
            prop_assert_eq!(difference.apply(whole(old)), whole(new));
        }
    }

    #[test]
    fn the_example_of_rfc_1624_section_4_holds() {
        // HC = 0xDD2F, m = 0x5555 becomes m' = 0x3285, HC' = 0x0000.
        assert_eq!(Sum::default().replace(0x5555, 0x3285).apply(0xdd2f), 0);
    }
}
