//! Which tier has the new connections.

use crate::source::instances::tests::world::{endpoints, frontend, instance, taking, translated};

#[test]
fn the_first_tier_with_a_usable_instance_has_all_new_connections() {
    let well = |address| [instance(address)];
    let ill = |address| [instance(address).checked("c", "critical")];
    let one = frontend("");
    for (tiers, expected) in [
        (
            [&well("10.1.1.1")[..], &well("10.1.1.2")],
            &["10.1.1.1:8080"][..],
        ),
        ([&ill("10.1.1.1"), &well("10.1.1.2")], &["10.1.1.2:8080"]),
        ([&[], &well("10.1.1.2")], &["10.1.1.2:8080"]),
        ([&ill("10.1.1.1"), &ill("10.1.1.2")], &[]),
        ([&[], &[]], &[]),
        // An instance that is skipped serves nobody.
        ([&well("db.example"), &well("10.1.1.2")], &["10.1.1.2:8080"]),
    ] {
        assert_eq!(taking(&one, &tiers), expected, "{tiers:?}");
    }
}

#[test]
fn other_tiers_keep_the_connections_that_they_have() {
    let (near, far) = ([instance("10.1.1.1")], [instance("10.1.1.2")]);
    let found = translated(&frontend(""), &["10.200.0.1"], &[&near, &far]);
    let expected = [("10.1.1.1:8080", Some(1)), ("10.1.1.2:8080", Some(0))];
    let expected = expected.map(|(at, weight)| (at.to_owned(), weight));
    assert_eq!(endpoints(&found), expected);
}

#[test]
fn an_instance_in_two_tiers_has_the_weight_of_the_one_that_is_chosen() {
    let ill = instance("10.1.1.1").checked("c", "critical");
    let well = instance("10.1.1.1").weighing(5, 1);
    let tiers: [&[_]; 2] = [&[ill], &[well]];
    assert_eq!(taking(&frontend(""), &tiers), ["10.1.1.1:8080"]);
}

#[test]
fn a_node_prefers_its_own_instances_if_it_is_to() {
    let here = || instance("10.1.1.1").on("n1");
    let there = || instance("10.1.1.2");
    let prefers = frontend("prefer_local = true");
    let both = [here(), there()];
    assert_eq!(taking(&prefers, &[&both]), ["10.1.1.1:8080"]);
    let all = ["10.1.1.1:8080", "10.1.1.2:8080"];
    assert_eq!(taking(&frontend(""), &[&both]), all);
    let ill = [here().checked("c", "critical"), there()];
    assert_eq!(taking(&prefers, &[&ill]), ["10.1.1.2:8080"]);
    assert_eq!(taking(&prefers, &[&[there()]]), ["10.1.1.2:8080"]);
    let warned = [here().checked("c", "warning"), there()];
    assert_eq!(taking(&prefers, &[&warned]), ["10.1.1.1:8080"]);
}
