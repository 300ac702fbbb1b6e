//! Removals wait while a source settles, additions do not.

use crate::instances::{
    settle::settling,
    tests::world::{frontend, instance, taking},
};

#[test]
fn removals_wait_and_additions_do_not() {
    let well = |address| instance(address).checked("c", "passing");
    let ill = |address| instance(address).checked("c", "critical");
    let (one, two) = (|| well("10.1.1.1"), || well("10.1.1.2"));
    for (old, new, expected) in [
        (
            vec![one(), two()],
            vec![one()],
            &["10.1.1.1", "10.1.1.2"][..],
        ),
        (vec![one()], vec![], &["10.1.1.1"]),
        (vec![one()], vec![ill("10.1.1.1")], &["10.1.1.1"]),
        (vec![ill("10.1.1.1")], vec![one()], &["10.1.1.1"]),
        (vec![one()], vec![one(), two()], &["10.1.1.1", "10.1.1.2"]),
        (vec![], vec![ill("10.1.1.1")], &[]),
        (vec![ill("10.1.1.1")], vec![ill("10.1.1.1")], &[]),
    ] {
        let settled = settling(&old, new.clone());
        let expected: Vec<String> = expected.iter().map(|ip| format!("{ip}:8080")).collect();
        assert_eq!(
            taking(&frontend(""), &[&settled]),
            expected,
            "{old:?} {new:?}"
        );
    }
    // A new address of an instance is no removal.
    let mut moved = one();
    moved.port = 9090;
    let settled = settling(&[one()], vec![moved]);
    assert_eq!(taking(&frontend(""), &[&settled]), ["10.1.1.1:9090"]);
}
