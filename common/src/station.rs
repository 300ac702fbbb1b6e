//! The interfaces at which a frame for another station is left alone: a bit each, by index.

/// The place of an interface among those at which frames for other stations are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StationPlace {
    /// Index of the word.
    pub word: u32,
    /// The interface's bit of it.
    pub mask: u64,
}

impl StationPlace {
    /// Number of words: 32 KiB, for the first 262,144 interfaces of a host's uptime.
    pub const WORDS: usize = 4096;

    /// The place of the interface with this index; `None` if it has none.
    #[inline]
    #[must_use]
    pub const fn of(interface: u32) -> Option<Self> {
        let word = interface / u64::BITS;
        if word as usize >= Self::WORDS {
            return None;
        }
        Some(Self {
            word,
            mask: 1 << (interface % u64::BITS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_has_a_bit_of_its_own() {
        let last = StationPlace::WORDS as u32 * u64::BITS - 1;
        for (interface, word, mask) in [(0, 0, 1), (1, 0, 2), (64, 1, 1), (last, 4095, 1 << 63)] {
            assert_eq!(
                StationPlace::of(interface),
                Some(StationPlace { word, mask })
            );
        }
        assert_eq!(StationPlace::of(last + 1), None);
    }
}
