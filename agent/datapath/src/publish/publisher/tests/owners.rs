//! The numbers of service ports.

use std::collections::HashMap;

use shunt_common::{Backend, V4};

use super::{CAPACITY, MemoryTables, Publisher, frontend, key, set};
use crate::publish::group::GroupKey;

/// Two services whose ports have the same fingerprint.
fn namesakes() -> [String; 2] {
    let mut seen = HashMap::new();
    (0..)
        .find_map(|number: u32| {
            let name = format!("s{number}");
            let owner = GroupKey::of(&set(&name, &[])).fingerprint() & Backend::<V4>::OWNER;
            let first = seen.insert(owner, name.clone())?;
            Some([first, name])
        })
        .unwrap()
}

/// The numbers beside the backends of these, by the last byte of their address.
fn owners<const N: usize>(tables: &MemoryTables<V4>, backends: [u8; N]) -> [u32; N] {
    backends.map(|last| {
        let mut backends = tables.backends.iter();
        let found = backends.find(|backend| backend.address.to_ne_bytes()[3] == last);
        found.unwrap().owner()
    })
}

#[test]
fn no_two_service_ports_have_one_number_and_each_keeps_its_own() {
    let [a, b] = namesakes();
    let [first, second] =
        [(a, 1), (b, 2)].map(|(name, last)| frontend(&set(&name, &[(last, 1), (last + 10, 1)])));
    let mut publisher = Publisher::new(MemoryTables::new(CAPACITY));
    let wanted = [(key(80), &first), (key(81), &second)];
    publisher.publish(&wanted, &[]).unwrap();
    let [a, a_too, b, b_too] = owners(publisher.tables(), [1, 11, 2, 12]);
    assert_eq!((a, b), (a_too, b_too), "one for all backends of a port");
    assert_ne!(a, b, "with the same fingerprint");

    // The next publisher finds them, in any order.
    let tables = publisher.tables().clone();
    let mut next = Publisher::new(tables);
    let before = next.writes();
    next.resync(&[(key(81), &second), (key(80), &first)])
        .unwrap();
    assert_eq!(next.writes(), before, "all is as it should be");
    assert_eq!(owners(next.tables(), [1, 2]), [a, b]);

    // A service port that comes back has a number of its own, too.
    next.publish(&[], &[key(80)]).unwrap();
    next.publish(&wanted, &[]).unwrap();
    let [first, second] = owners(next.tables(), [1, 2]);
    assert_ne!(first, second);
    assert_eq!(second, b);
}

#[test]
fn a_number_that_two_service_ports_have_is_mended() {
    let [first, second] =
        [("a", 1), ("b", 2)].map(|(name, last)| frontend(&set(name, &[(last, 1)])));
    let mut publisher = Publisher::new(MemoryTables::new(CAPACITY));
    let wanted = [(key(80), &first), (key(81), &second)];
    publisher.publish(&wanted, &[]).unwrap();
    let [a, b] = owners(publisher.tables(), [1, 2]);
    assert_ne!(a, b);
    for backend in &mut publisher.tables_mut().backends {
        if backend.owner() == b {
            backend.flags = backend.flags & !Backend::<V4>::OWNER | a;
        }
    }
    let mut next = Publisher::new(publisher.tables().clone());
    next.resync(&wanted).unwrap();
    let [first, second] = owners(next.tables(), [1, 2]);
    assert_ne!(first, second);
    assert!([first, second].contains(&a), "one of them keeps it");
}
