//! Weights by health.

use crate::instances::{
    instance::{CheckStatus, Instance},
    tests::world::{frontend, instance, simply},
};

/// The weight of the one instance; `None`: it is on its way out.
fn weight(lines: &str, instance: Instance) -> Option<u32> {
    let found = simply(&frontend(lines), &[instance]);
    assert_eq!(found.len(), 1);
    found[0].1
}

#[test]
fn the_worst_check_counts() {
    let web = || instance("10.1.1.1").weighing(10, 3);
    for (checks, expected, only_passing) in [
        (&[][..], Some(10), Some(10)),
        (&["passing"], Some(10), Some(10)),
        (&["passing", "warning"], Some(3), None),
        (&["warning", "critical", "passing"], None, None),
        (&["critical"], None, None),
        // Unknown statuses, and an empty one.
        (&["odd"], None, None),
        (&["maintenance"], None, None),
        (&[""], None, None),
        (&["Passing"], None, None),
    ] {
        let found = || {
            let checks = checks.iter().enumerate();
            checks.fold(web(), |web, (id, check)| {
                web.checked(&id.to_string(), check)
            })
        };
        assert_eq!(weight("", found()), expected, "{checks:?}");
        assert_eq!(
            weight("only_passing = true", found()),
            only_passing,
            "{checks:?}"
        );
    }
}

#[test]
fn odd_weights_have_a_meaning() {
    for (weights, passing, warning) in [
        (None, Some(1), Some(1)),
        (Some((5, 2)), Some(5), Some(2)),
        // `{"Passing": 5}` alone.
        (Some((5, 0)), Some(5), None),
        (Some((0, 0)), Some(1), None),
        (Some((-3, -3)), Some(1), None),
        (Some((i64::MAX, i64::MAX)), Some(65_535), Some(65_535)),
        (Some((i64::MIN, 7)), Some(1), Some(7)),
    ] {
        let web = |status| {
            let web = instance("10.1.1.1").checked("c", status);
            match weights {
                Some((passing, warning)) => web.weighing(passing, warning),
                None => web,
            }
        };
        assert_eq!(weight("", web("passing")), passing, "{weights:?}");
        assert_eq!(weight("", web("warning")), warning, "{weights:?}");
        assert_eq!(weight("", web("critical")), None, "{weights:?}");
    }
}

#[test]
fn maintenance_is_a_critical_check_of_the_service_or_of_its_node() {
    for id in ["_service_maintenance:web", "_node_maintenance"] {
        let web = instance("10.1.1.1").checked(id, "critical");
        assert_eq!(weight("", web), None, "{id}");
    }
}

#[test]
fn ignored_checks_are_named_exactly() {
    for (ignored, expected) in [
        ("[\"noisy\"]", Some(1)),
        ("[\"Noisy\"]", None),
        ("[\"noisy*\"]", None),
        ("[\"other\", \"noisy\"]", Some(1)),
    ] {
        let web = instance("10.1.1.1").checked("noisy", "critical");
        let found = weight(&format!("ignore_checks = {ignored}"), web);
        assert_eq!(found, expected, "{ignored}");
    }
}

#[test]
fn statuses_are_ordered_by_how_bad_they_are() {
    let names = ["passing", "warning", "critical"].map(CheckStatus::of_name);
    assert!(names.is_sorted_by(|better, worse| better < worse));
}
