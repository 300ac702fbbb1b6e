//! Numbers that look random, and are the same for the same seed.

/// A generator of numbers (Marsaglia's xorshift64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The generator number `number` of those that a seed leads to.
    pub fn new(seed: u64, number: u64) -> Self {
        // The golden section of 2^64, which is far from all of its multiples.
        let mut random =
            Self((seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(1) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The upper half of the next number.
    pub const fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// A number below `limit`, which is not 0.
    pub const fn below(&mut self, limit: u32) -> u32 {
        ((self.word() as u64 * limit as u64) >> 32) as u32
    }

    /// A port without a fixed owner.
    pub const fn port(&mut self) -> u16 {
        1024 + self.below(64_512) as u16
    }
}
