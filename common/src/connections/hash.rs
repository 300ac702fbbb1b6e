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

    /// Returns the hash of a key together with a number, with the same properties.
    #[inline(always)]
    pub fn hash_numbered<F: Wide>(&self, key: &Key<F>, number: u32) -> u32 {
        spread(self.product(0, u64::from(self.hash(key)) | u64::from(number) << 32))
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

#[cfg(test)]
mod tests {
    use super::{super::Role, *};
    use crate::{TCP, V4};

    #[test]
    fn numbers_spread_a_key_and_keys_spread_a_number() {
        let seeds = Seeds([3, 5, 7, 11, 13, 17, 19, 23, 29, 31]);
        let upper = |ports, number| {
            let key = Key::<V4>::of_words([7], ports, TCP, Role::Forward);
            assert_eq!(
                seeds.hash_numbered(&key, number),
                seeds.hash_numbered(&key, number)
            );
            seeds.hash_numbered(&key, number) >> 30
        };
        let mut counts = [[0_u32; 4]; 2];
        for number in 0..4096 {
            counts[0][upper(1, number) as usize] += 1;
            counts[1][upper(number, 1) as usize] += 1;
        }
        for count in counts.as_flattened() {
            assert!((900..1150).contains(count), "{counts:?}");
        }
    }
}
