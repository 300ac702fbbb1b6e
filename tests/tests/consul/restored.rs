//! A snapshot that is restored takes the catalog back to what it was.

use std::process::Command;

use shunt_tests::{Consul, addresses};

use crate::world::{Plan, WEB, World, ground, is_current, registration};

#[test]
fn a_restored_catalog_is_followed_before_a_wait_is_over() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let mut plan = Plan::new(WEB);
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
    snapshot("restore");
    world.await_pods(&["pod-a"]);
    world.await_source("it is up to date", is_current);
}
