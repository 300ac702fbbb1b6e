//! The Internet checksum's arithmetic: sums in one's complement (RFC 1071), updated by
//! differences (RFC 1624).

/// A one's complement sum of 16-bit words, kept in 32 bits.
///
/// Words are summed as they stand in memory; RFC 1071 section 2(B) shows that the byte order does
/// not matter as long as it is the same for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u32);

impl Sum {
    /// The sum after `old` was replaced by `new` in what it covers.
    #[inline]
    #[must_use]
    pub const fn replace(self, old: u32, new: u32) -> Self {
        self.add(!old).add(new)
    }

    /// Whether a checksum is the same after this difference was applied.
    ///
    /// In one's complement zero has two forms.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0 || self.0 == u32::MAX
    }

    /// The sum as the kernel's checksum helpers take it (`__wsum`).
    #[inline]
    pub const fn to_wsum(self) -> u32 {
        self.0
    }

    /// The checksum field `checksum` (as it stands in the packet) after this difference.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
        let sum = self.add(!checksum as u16 as u32).0;
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        !(sum as u16)
    }

    #[inline]
    const fn add(self, word: u32) -> Self {
        let sum = self.0 as u64 + word as u64;
        // At most 2^33 - 2, so one fold of the carry is enough.
        Self((sum as u32).wrapping_add((sum >> 32) as u32))
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

        #[test]
        fn replacing_and_restoring_is_no_change(old: u32, new: u32) {
            prop_assert!(Sum::default().replace(old, new).replace(new, old).is_zero());
        }
    }

    #[test]
    fn the_example_of_rfc_1624_section_4_holds() {
        // HC = 0xDD2F, m = 0x5555 becomes m' = 0x3285, HC' = 0x0000.
        assert_eq!(Sum::default().replace(0x5555, 0x3285).apply(0xdd2f), 0);
    }
}
