//! A snapshot that is restored takes the catalog back to what it was.

use std::{collections::BTreeSet, process::Command, time::Duration};

use shunt_tests::{Consul, addresses, wait_until};

use crate::read_again::many;
use crate::world::{Plan, SERVED, WEB, World, ground, is_current, registration};

/// Time that a restored catalog takes to be in the kernel: much less than the wait of a query, 64 s.
const RESTORED: Duration = Duration::from_secs(5);

#[test]
fn a_restored_catalog_is_followed_before_a_wait_is_over() {
    restored(WEB, false);
}

#[test]
fn a_restored_catalog_is_followed_before_a_wait_is_over_with_hints_too() {
    restored(&format!("{}{WEB}", many()), true);
}

fn restored(frontends: &str, has_hints: bool) {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let mut plan = Plan::new(frontends);
    plan.flags = ["--consul-settle", "0s"].map(str::to_owned).to_vec();
    let consul = Consul::start(&binary, sandbox.node(), plan.consul.clone()).unwrap();
    let world = World::with_a(sandbox, consul, plan);
    world.await_pods(&["pod-a"]);
    let file = world.folder.path().join("snapshot");
    let snapshot = |what: &str| {
        let mut command = Command::new(&binary);
        let command = command.args(["snapshot", what]).arg(&file);
        let output = world.node().enter(|| command.output()).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {said}");
    };
    snapshot("save");
    world.register(&registration("b", addresses::POD_B, "passing"));
    world.await_pods(&["pod-a", "pod-b"]);
    assert_eq!(world.source()["hints"], has_hints);
    snapshot("restore");
    let expected = BTreeSet::from([format!("{}:{SERVED}", addresses::POD_A)]);
    wait_until("the restored catalog is in the kernel", RESTORED, || {
        (world.backends() == expected).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error:#}; its log:\n{}", world.agent.log()));
    world.await_pods(&["pod-a"]);
    world.await_source("it is up to date", is_current);
}
