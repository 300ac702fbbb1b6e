//! A slot's second word: where the halves are that are at home in this slot and had to go elsewhere.

/// Six distances (8 bits each, 0 is none), whether keys of this home have gone to the next one (1
/// bit), and how many halves have been entered here (15 bits, and then from 0 again).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints(pub u64);

/// Number of distances.
pub(super) const PLACES: u32 = 6;
const DISTANCES: u64 = (1 << (8 * PLACES)) - 1;
const SPILLED: u64 = 1 << 48;
const COUNT: u64 = 1 << 49;

impl Hints {
    /// The distances, the first in the lowest bits.
    #[inline(always)]
    pub const fn distances(self) -> u64 {
        self.0 & DISTANCES
    }

    /// Returns whether some key of this home is elsewhere, or may be.
    #[inline(always)]
    pub const fn is_any(self) -> bool {
        self.0 & (DISTANCES | SPILLED) != 0
    }

    /// Returns whether some key of this home may be at home in the next slot. This is not unsaid: it is rare
    /// and costs a packet of no connection a look at the next slot.
    #[inline(always)]
    pub const fn has_spilled(self) -> bool {
        self.0 & SPILLED != 0
    }

    /// The same after one more half has been entered.
    #[inline(always)]
    #[must_use]
    pub const fn counted(self) -> Self {
        Self(self.0.wrapping_add(COUNT))
    }

    /// The same, with the mark that some half found no place here.
    #[inline(always)]
    #[must_use]
    pub const fn spilled(self) -> Self {
        Self(self.0 | SPILLED)
    }

    /// The same with this distance; `None` if there is no place.
    #[inline(always)]
    #[expect(
        clippy::verbose_bit_mask,
        reason = "a place is a byte, not a number of zeros"
    )]
    pub const fn with(self, distance: u32) -> Option<Self> {
        let mut place = 0;
        while place < PLACES {
            if (self.0 >> (8 * place)) & 0xff == 0 {
                return Some(Self(self.0 | (distance as u64 & 0xff) << (8 * place)));
            }
            place += 1;
        }
        None
    }

    /// The same without this distance, which is not 0.
    #[inline(always)]
    #[must_use]
    pub const fn without(self, distance: u32) -> Self {
        let mut place = 0;
        while place < PLACES {
            if (self.0 >> (8 * place)) & 0xff == distance as u64 & 0xff {
                return Self(self.0 & !(0xff << (8 * place)));
            }
            place += 1;
        }
        self
    }

    /// Returns whether this distance, which is not 0, is among them.
    #[inline(always)]
    pub const fn has(self, distance: u32) -> bool {
        self.without(distance).0 != self.0
    }

    /// Returns whether there are places for so many more.
    #[expect(
        clippy::verbose_bit_mask,
        reason = "a place is a byte, not a number of zeros"
    )]
    #[inline(always)]
    pub const fn has_places(self, wanted: u32) -> bool {
        let mut free = 0;
        let mut place = 0;
        while place < PLACES {
            free += ((self.0 >> (8 * place)) & 0xff == 0) as u32;
            place += 1;
        }
        free >= wanted
    }
}
