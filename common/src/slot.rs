//! Slots: weighted selection with one slot a backend, whatever the weights.
//!
//! A frontend's slice is an alias table (A. J. Walker, 1977; M. D. Vose, 1991): each slot names
//! its own backend, an alias and the part of the slot that is its own. One random number picks the
//! slot and the side of its threshold, so a backend's share is weight / sum of weights to within
//! 2^-32 of a slot, for any `u32` weights, in one array read and without repeating heavy backends.
//! Slot `i` of a slice always names the set's backend `i`, so the slice is also the list of
//! backends that can be read back.

#[cfg(not(target_arch = "bpf"))]
use alloc::vec::Vec;

use bytemuck::{Pod, Zeroable};

/// One entry of a frontend's selection table.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct Slot {
    /// Index of the slot's own backend in the backend table, or [`Self::REFUSED`], as only the last slot of a
    /// slice may have.
    pub backend: u32,
    /// Index of the backend that has the rest of the slot, or [`Self::REFUSED`].
    pub alias: u32,
    /// The slot's own part, in 2^-32 of a slot.
    pub threshold: u32,
    /// Session affinity of the whole slice, the same in each of its slots: for how many seconds
    /// since its last connection a client stays with its backend; 0 is off.
    pub affinity: u32,
}

const _: () = assert!(size_of::<Slot>() == 16, "four words");

impl Slot {
    /// In place of a backend: the connection is refused. No backend table is so large.
    pub const REFUSED: u32 = u32::MAX;

    /// The slot of `count` that `random` falls into, and where in it: (index, fraction).
    ///
    /// `random * count` is a fixed-point number of slots: its upper half is the index, its lower
    /// half the place inside. The index is below `count`.
    #[inline]
    pub const fn locate(random: u32, count: u32) -> (u32, u32) {
        let place = random as u64 * count as u64;
        ((place >> 32) as u32, place as u32)
    }

    /// The backend at `fraction` of this slot.
    #[inline]
    pub const fn select(&self, fraction: u32) -> u32 {
        if fraction < self.threshold {
            self.backend
        } else {
            self.alias
        }
    }
}

/// Makes the slice that selects `backends[i]` (an index in the backend table) with weight
/// `weights[i]`, with session affinity for `affinity` seconds (0: none).
///
/// Where all weights are 0 the slice only lists the backends; the frontend's cell has the flag
/// ([`crate::Cell::UNUSABLE`]).
///
/// # Panics
///
/// If the two differ in length.
#[cfg(not(target_arch = "bpf"))]
pub fn fill_slots(backends: &[u32], weights: &[u32], affinity: u32) -> Vec<Slot> {
    assert_eq!(backends.len(), weights.len(), "a weight for each backend");
    let mut slots: Vec<Slot> = backends
        .iter()
        .map(|backend| Slot {
            backend: *backend,
            alias: *backend,
            threshold: 0,
            affinity,
        })
        .collect();
    let full: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    if full == 0 || weights.iter().all(|weight| *weight == weights[0]) {
        return slots;
    }
    // Weight times the number of slots: what a backend has to place, a slot holding `full`.
    let count = weights.len() as u64;
    let mut rest: Vec<u64> = weights.iter().map(|w| u64::from(*w) * count).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..rest.len()).partition(|i| rest[*i] < full);
    while let (Some(needy), Some(donor)) = (small.pop(), large.last().copied()) {
        // `rest` is below `full`, so the quotient is below 2^32.
        slots[needy].threshold = ((u128::from(rest[needy]) << 32) / u128::from(full)) as u32;
        slots[needy].alias = backends[donor];
        rest[donor] -= full - rest[needy];
        if rest[donor] < full {
            large.pop();
            small.push(donor);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    /// Each backend's share of the slice, in 2^-32 of a slot.
    fn shares(slots: &[Slot], backends: usize) -> Vec<u64> {
        let mut shares = vec![0; backends];
        for slot in slots {
            shares[slot.backend as usize] += u64::from(slot.threshold);
            shares[slot.alias as usize] += (1 << 32) - u64::from(slot.threshold);
        }
        shares
    }

    proptest! {
        #[test]
        fn a_share_is_weight_over_sum_of_weights(
            weights in proptest::collection::vec(
                prop_oneof![Just(0), 1u32..4, Just(1), 0u32.., Just(u32::MAX)],
                1..60,
            ),
        ) {
            let sum: u128 = weights.iter().map(|w| u128::from(*w)).sum();
            prop_assume!(sum > 0);
            let backends: Vec<u32> = (0..weights.len() as u32).collect();
            let slots = fill_slots(&backends, &weights, 0);
            let shares = shares(&slots, weights.len());
            let slack = weights.len() as u64;
            for (share, weight) in shares.into_iter().zip(&weights) {
                let ideal = ((u128::from(*weight) * weights.len() as u128) << 32) / sum;
                prop_assert!(
                    share.abs_diff(ideal as u64) <= slack,
                    "share {share} of weight {weight}, ideal {ideal}",
                );
                prop_assert!(*weight > 0 || share == 0, "weight 0 receives nothing");
            }
        }

        #[test]
        fn slot_i_names_backend_i(weights in proptest::collection::vec(0u32.., 0..40)) {
            let backends: Vec<u32> = (0..weights.len() as u32).map(|i| 1000 + i).collect();
            let slots = fill_slots(&backends, &weights, 9);
            prop_assert!(slots.iter().all(|slot| slot.affinity == 9));
            prop_assert_eq!(slots.iter().map(|s| s.backend).collect::<Vec<_>>(), backends);
        }

        #[test]
        fn a_random_number_falls_into_one_of_the_slots(random: u32, count in 1u32..1 << 20) {
            prop_assert!(Slot::locate(random, count).0 < count);
        }
    }

    #[test]
    fn equal_weights_need_no_alias() {
        for slot in fill_slots(&[5, 6, 7], &[9, 9, 9], 0) {
            assert_eq!(
                (slot.select(0), slot.select(u32::MAX)),
                (slot.backend, slot.backend)
            );
        }
    }
}
