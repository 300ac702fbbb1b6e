//! Division of a whole in two steps: among parts by their weights, and in each among its members.

/// The whole that is divided. A u32, as the weights of slots are: a share is exact to 2^-32.
pub(super) const WHOLE: u32 = u32::MAX;

/// A part that takes connections.
#[derive(Debug)]
pub(super) struct Part {
    /// The sum of the weights of the parts before it, also of those that take none.
    pub(super) before: u64,
    /// Its own weight.
    pub(super) weight: u32,
    /// The weights of its members, not all 0.
    pub(super) members: Vec<u32>,
}

/// The shares of the members of each part in [`WHOLE`], where all parts together, also those that
/// take no connections, have the weight `total`.
///
/// The whole is a line on which the members lie side by side, and only the points between them are
/// rounded. So an error never adds up: that of a member, of a part and of the gap that a part leaves
/// which takes no connections is less than 1 each.
pub(super) fn divide(parts: &[Part], total: u64) -> Vec<Vec<u32>> {
    let divided = parts.iter().map(|part| {
        let Part {
            before,
            weight,
            members,
        } = part;
        let sum: u128 = members.iter().map(|member| u128::from(*member)).sum();
        // Weights are below 2^32, their sum over all parts too, and a list in memory has fewer than
        // 2^60 members: all that follows fits.
        let point = |placed: u128| {
            let place = u128::from(*before) * sum + u128::from(*weight) * placed;
            let all = u128::from(total) * sum;
            (u128::from(WHOLE) * place / all.max(1)) as u32
        };
        let mut placed = 0;
        let mut start = point(placed);
        let mut share = |member: &u32| {
            placed += u128::from(*member);
            let end = point(placed);
            end - std::mem::replace(&mut start, end)
        };
        members.iter().map(&mut share).collect()
    });
    divided.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parts side by side, each with its members' weights; those without members take nothing.
    fn parts(list: &[(u32, Vec<u32>)]) -> (Vec<Part>, u64) {
        let mut before = 0;
        let mut parts = Vec::new();
        for (weight, members) in list {
            if members.iter().any(|member| *member > 0) {
                parts.push(Part {
                    before,
                    weight: *weight,
                    members: members.clone(),
                });
            }
            before += u64::from(*weight);
        }
        (parts, before)
    }

    #[test]
    fn a_part_has_its_share_however_many_members_it_has() {
        let (parts, total) = parts(&[(50, vec![1]), (50, vec![1; 1000])]);
        let shares = divide(&parts, total);
        assert_eq!(shares[0], [WHOLE / 2]);
        assert_eq!(shares[1].iter().sum::<u32>(), WHOLE - WHOLE / 2);
        assert!(
            shares[1]
                .iter()
                .all(|share| share.abs_diff(WHOLE / 2000) <= 1)
        );
    }

    #[test]
    fn the_share_of_a_part_without_members_is_left_over() {
        let (parts, total) = parts(&[(1, vec![]), (2, vec![7]), (1, vec![0])]);
        let shares = divide(&parts, total);
        assert_eq!(shares.len(), 1);
        assert!(shares[0][0].abs_diff(WHOLE / 2) <= 1, "{shares:?}");
    }

    proptest! {
        #[test]
        fn each_share_is_exact(
            list in proptest::collection::vec(
                (
                    prop_oneof![Just(0), Just(1), 0u32..100, 0u32..0x1000_0000],
                    proptest::collection::vec(
                        prop_oneof![Just(0), Just(1), 0u32.., Just(u32::MAX)],
                        0..12,
                    ),
                ),
                1..12,
            ),
        ) {
            let (parts, total) = parts(&list);
            prop_assume!(total > 0);
            let shares = divide(&parts, total);
            let mut all = 0;
            for (Part { weight, members, .. }, shares) in parts.iter().zip(&shares) {
                let part: u64 = shares.iter().map(|share| u64::from(*share)).sum();
                let ideal = f64::from(WHOLE) * f64::from(*weight) / total as f64;
                prop_assert!((part as f64 - ideal).abs() < 1.001, "{part} of {ideal}");
                let sum: f64 = members.iter().map(|member| f64::from(*member)).sum();
                for (member, share) in members.iter().zip(shares) {
                    let ideal = ideal * f64::from(*member) / sum;
                    prop_assert!((f64::from(*share) - ideal).abs() < 1.001, "{share} of {ideal}");
                    prop_assert!(*member > 0 && *weight > 0 || *share == 0, "0 receives nothing");
                }
                all += part;
            }
            prop_assert!(all <= u64::from(WHOLE));
            let with_members: u64 = parts.iter().map(|part| u64::from(part.weight)).sum();
            if with_members == total {
                prop_assert_eq!(all, u64::from(WHOLE), "nothing is left over");
            }
        }
    }
}
