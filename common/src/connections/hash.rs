//! The homes of keys.

use super::{Key, Wide};

/// Random words, chosen when the table is made: without them no sender can choose addresses and ports that share a
/// home.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Seeds(pub [u32; 10]);

impl Seeds {
    /// A key's hash: NH (J. Black et al., UMAC, CRYPTO 1999), of which two keys collide with a
    /// probability of 2^-32 over the seeds, then a bijection that spreads neighbours (the steps of A.
    /// Appleby's MurmurHash3).
    #[inline(always)]
    pub fn hash<F: Wide>(&self, key: &Key<F>) -> u32 {
        let mut sum = self.product(0, key.ports_and_kind());
        for (place, word) in F::words(&key.addresses).iter().enumerate() {
            sum = sum.wrapping_add(self.product(place + 1, *word));
        }
        spread(sum)
    }

    /// Returns the hash of a [`Wide::client`], with the same properties.
    #[inline(always)]
    pub fn hash_client(&self, client: u64) -> u32 {
        spread(self.product(0, client))
    }

    #[inline(always)]
    fn product(&self, place: usize, word: u64) -> u64 {
        let first = (word as u32).wrapping_add(self.0[2 * place]);
        let second = ((word >> 32) as u32).wrapping_add(self.0[2 * place + 1]);
        u64::from(first).wrapping_mul(u64::from(second))
    }
}

#[inline(always)]
const fn spread(sum: u64) -> u32 {
    let sum = (sum ^ sum >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let sum = (sum ^ sum >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (sum >> 32) as u32
}

/// The home of a hash among so many.
#[inline(always)]
pub(crate) const fn home(hash: u32, homes: u32) -> u32 {
    ((hash as u64 * homes as u64) >> 32) as u32
}
