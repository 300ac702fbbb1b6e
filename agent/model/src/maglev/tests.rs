//! The guarantees of the tables.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Instant,
};

use proptest::prelude::*;

use super::*;

fn backend(number: u32, weight: u32) -> Member {
    Member {
        ip: Ipv4Addr::from(0x0a01_0000 + number).into(),
        port: 8080,
        weight,
    }
}

fn backends(weights: &[u32]) -> Vec<Member> {
    (1..)
        .zip(weights)
        .map(|(number, weight)| backend(number, *weight))
        .collect()
}

fn entries(factor: u32) -> EntriesPerBackend {
    EntriesPerBackend::new(factor).unwrap()
}

/// The table as addresses: positions depend on who else is there.
fn addresses(backends: &[Member], factor: u32) -> Vec<IpAddr> {
    let size = entries(factor).table_size(backends.len());
    let table = table(backends, size).unwrap();
    table
        .into_iter()
        .map(|position| backends[usize::from(position)].ip)
        .collect()
}

fn is_prime(number: u32) -> bool {
    (2..=number.isqrt()).all(|part| !number.is_multiple_of(part))
}

#[test]
fn sizes_are_prime_and_large_enough() {
    for size in SIZES {
        assert!(is_prime(size), "{size}");
    }
    for factor in [100, 250, 1000] {
        for number in [0, 1, 2, 39, 40, 41, 655, 656, 10_000, MOST_BACKENDS] {
            let size = entries(factor).table_size(number).get();
            assert!(u64::from(size) >= u64::from(factor) * number as u64);
        }
    }
    assert_eq!(EntriesPerBackend::new(99), None);
    assert_eq!(EntriesPerBackend::new(1001), None);
}

#[test]
fn a_share_is_weight_over_sum_of_weights() {
    let weights = [1, 2, 3, 7, 100, 1000, 0, 5, 5, 5];
    let list = backends(&weights);
    let size = entries(1000).table_size(list.len());
    let mut shares = vec![0; list.len()];
    for position in table(&list, size).unwrap() {
        shares[usize::from(position)] += 1;
    }
    let sum: u32 = weights.iter().sum();
    for (share, weight) in shares.into_iter().zip(weights) {
        let ideal = f64::from(size.get()) * f64::from(weight) / f64::from(sum);
        let share = f64::from(share);
        assert!(
            (share - ideal).abs() <= 2.0 + ideal / 50.0,
            "weight {weight} has {share} entries of {size}, and ought to have {ideal}"
        );
        assert_eq!(share > 0.0, weight > 0);
    }
}

proptest! {
    #[test]
    fn equal_weights_have_equal_shares_to_one_in_a_hundred(number in 1usize..300, weight in 1u32..) {
        let list = backends(&vec![weight.min(u32::MAX / number as u32); number]);
        let size = entries(100).table_size(number);
        let mut shares = vec![0u32; number];
        for position in table(&list, size).unwrap() {
            shares[usize::from(position)] += 1;
        }
        let ideal = size.get() / number as u32;
        for share in shares {
            prop_assert!(share.abs_diff(ideal) <= 2 + ideal / 100, "{share} for {ideal}");
        }
    }

    #[test]
    fn every_backend_with_a_weight_has_an_entry(
        weights in prop::collection::vec(prop_oneof![Just(0u32), 1u32..10, Just(1 << 25)], 1..100),
    ) {
        let list = backends(&weights);
        let size = entries(100).table_size(list.len());
        let Some(table) = table(&list, size) else {
            prop_assert!(weights.iter().all(|weight| *weight == 0));
            return Ok(());
        };
        for (position, weight) in (0u16..).zip(weights) {
            prop_assert_eq!(table.contains(&position), weight > 0);
        }
    }
}

/// Of each hundred flows of the others, how many move when one of `list` goes.
fn moved(list: &[Member], gone: usize, factor: u32) -> f64 {
    let before = addresses(list, factor);
    let mut rest = list.to_vec();
    let IpAddr::V4(_) = rest.remove(gone).ip else {
        unreachable!("of IPv4")
    };
    let after = addresses(&rest, factor);
    assert_eq!(before.len(), after.len());
    let of_others = before.iter().filter(|ip| **ip != list[gone].ip).count();
    let mut pairs = before.iter().zip(&after);
    let moved = pairs
        .by_ref()
        .filter(|(before, after)| **before != list[gone].ip && before != after)
        .count();
    100.0 * moved as f64 / of_others as f64
}

#[test]
fn the_others_keep_their_flows_when_a_backend_goes() {
    for (factor, most) in [(100, 5.0), (1000, 1.0)] {
        for number in [2, 3, 5, 10, 11, 20, 30, 40] {
            let equal = backends(&vec![1; number]);
            let mixed: Vec<u32> = (0..number as u32).map(|i| 1 + i * 7 % 5).collect();
            for list in [equal, backends(&mixed)] {
                for gone in [0, number / 2, number - 1] {
                    let moved = moved(&list, gone, factor);
                    assert!(
                        moved <= most,
                        "{moved:.2} % of the others' flows at {factor} times, {number} backends"
                    );
                }
            }
        }
    }
}

/// As many as a table of each size has at most, before a larger one takes its place.
#[test]
fn the_others_keep_their_flows_when_one_of_as_many_as_a_table_takes_goes() {
    for (factor, most) in [(100, 5.0), (1000, 1.0)] {
        for number in [163, 655] {
            let mixed: Vec<u32> = (0..number).map(|i| 1 + i * 7 % 5).collect();
            for list in [backends(&vec![1; number as usize]), backends(&mixed)] {
                let moved = moved(&list, list.len() / 2, factor);
                assert!(
                    moved <= most,
                    "{moved:.2} % of the others' flows at {factor} times, {number} backends"
                );
            }
        }
    }
}

#[test]
fn the_table_is_the_same_wherever_it_is_made() {
    let mut list = backends(&[1, 2, 3]);
    list.push(Member {
        ip: Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, 7).into(),
        ..list[0]
    });
    let size = entries(100).table_size(4);
    let all = table(&list, size).unwrap();
    let sum = all
        .iter()
        .fold(0, |sum, position| mix(sum ^ u64::from(*position)));
    assert_eq!(
        (sum, fingerprint(&list, size)),
        (EXPECTED_TABLE, EXPECTED_FINGERPRINT),
        "nodes of other versions would choose otherwise: a new VERSION"
    );
}

const EXPECTED_TABLE: u64 = 16_501_792_670_379_217_934;
const EXPECTED_FINGERPRINT: u64 = 6_434_963_303_486_944_887;

#[test]
fn what_the_table_depends_on_is_in_its_fingerprint() {
    let list = backends(&[1, 1]);
    let size = entries(100).table_size(2);
    let print = fingerprint(&list, size);
    let mut others = [list.clone(), list.clone(), list.clone()];
    others[0][1].weight = 2;
    others[1][1].port = 80;
    others[2][1].ip = Ipv4Addr::LOCALHOST.into();
    for other in others {
        assert_ne!(fingerprint(&other, size), print);
    }
    assert_ne!(fingerprint(&list, entries(1000).table_size(2)), print);
}

#[test]
fn there_is_no_table_of_none_or_of_too_many() {
    let size = entries(100).table_size(1);
    assert_eq!(table(&[], size), None);
    assert_eq!(table(&backends(&[0, 0]), size), None);
    assert_eq!(
        table(&vec![backend(1, 1); MOST_BACKENDS + 1], size),
        None,
        "a position has 16 bits"
    );
}

#[test]
fn a_table_of_ten_thousand_backends_holds_nobody_up() {
    let list = backends(&vec![1; 10_000]);
    let size = entries(100).table_size(list.len());
    // The best of some: the machine has other things to do.
    let times = (0..5).map(|_| {
        let begin = Instant::now();
        assert!(table(&list, size).is_some());
        begin.elapsed().as_millis()
    });
    let best = times.min().unwrap();
    assert!(best <= 300, "{best} ms for {size} entries");
}
