//! An empty answer is no empty service, if the token may not see it.

use std::{fs, thread, time::Duration};

use serde_json::json;
use shunt_tests::addresses;

use crate::world::{Plan, WEB, World, is_current, is_stale, registration};

const ALL: &str = "service_prefix \"\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" } \
                   agent_prefix \"\" { policy = \"read\" }";
const NO_NODES: &str =
    "service_prefix \"\" { policy = \"read\" } agent_prefix \"\" { policy = \"read\" }";
const NO_SERVICES: &str =
    "node_prefix \"\" { policy = \"read\" } agent_prefix \"\" { policy = \"read\" }";

/// A world whose agent has a token of the policy `shunt`, in a file.
fn with_token() -> Option<(World, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let mut plan = Plan::new(WEB);
    plan.consul.acl = true;
    let world = World::with(plan, |sandbox, consul, plan| {
        let token = consul.token(sandbox.node(), "shunt", ALL).unwrap();
        fs::write(&file, token).unwrap();
        plan.flags = vec!["--consul-token-file".to_owned(), file.display().to_string()];
    })?;
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
    Some((world, folder))
}

#[test]
fn rights_that_are_taken_empty_no_frontend_and_are_shown() {
    let Some((mut world, _folder)) = with_token() else {
        return;
    };
    for (rules, missing) in [(NO_NODES, "node:read on"), (NO_SERVICES, "service:read on")] {
        world
            .consul
            .change_policy(world.node(), "shunt", rules)
            .unwrap();
        // Something happens, so that the query wakes.
        world.register(&registration("b", addresses::POD_B, "passing"));
        let source = world.await_source("the right is missed", is_stale);
        let rights = source["missing_rights"].to_string();
        assert!(rights.contains(missing), "{source:#}");
        assert!(world.status_text().contains("LACKS"));
        let kept = world.backends();
        assert!(kept.contains("10.1.1.3:8080"), "{kept:?}");
        // Nor does an agent that starts now.
        world = world.restart(|_, _| {});
        world.await_source("the right is missed", is_stale);
        thread::sleep(Duration::from_millis(500));
        assert_eq!(world.backends(), kept);
        world.await_pods(if kept.len() == 1 {
            &["pod-a"]
        } else {
            &["pod-a", "pod-b"]
        });
        world
            .consul
            .change_policy(world.node(), "shunt", ALL)
            .unwrap();
        world.await_source("it is up to date", is_current);
        world.await_backends(&[addresses::POD_A, addresses::POD_B]);
        let source = world.source();
        assert_eq!(source["missing_rights"].as_array().map(Vec::len), Some(0));
        world.deregister("b");
        world.await_backends(&[addresses::POD_A]);
    }
    // With all rights, empty is empty.
    world.deregister("a");
    world.await_backends(&[]);
}

#[test]
fn a_node_that_may_not_be_read_any_more_keeps_its_instances_and_others_do_not() {
    let Some((world, _folder)) = with_token() else {
        return;
    };
    let mut other = registration("b", addresses::POD_B, "passing");
    for pointer in ["/Node", "/Checks/0/Node"] {
        *other.pointer_mut(pointer).unwrap() = json!("n3");
    }
    other["Address"] = json!("10.1.0.9");
    world.register(&other);
    world.await_backends(&[addresses::POD_A, addresses::POD_B]);
    let some = format!("{ALL} node \"n3\" {{ policy = \"deny\" }}");
    world
        .consul
        .change_policy(world.node(), "shunt", &some)
        .unwrap();
    // Something happens, so that the query wakes.
    world.register(&registration("c", addresses::POD_D, "passing"));
    world.await_backends(&[addresses::POD_A, addresses::POD_B, addresses::POD_D]);
    let source = world.await_source("the right is missed", is_stale);
    let rights = source["missing_rights"].to_string();
    assert!(rights.contains("node:read on `n3`"), "{source:#}");
    // What may be seen may go.
    world.deregister("c");
    world.await_backends(&[addresses::POD_A, addresses::POD_B]);
    world
        .consul
        .change_policy(world.node(), "shunt", ALL)
        .unwrap();
    world.await_source("it is up to date", is_current);
    world.put(
        "/v1/catalog/deregister",
        &json!({ "Node": "n3", "ServiceID": "b" }),
    );
    world.await_backends(&[addresses::POD_A]);
}

#[test]
fn a_lost_token_takes_nothing_and_a_new_one_is_read_from_its_file() {
    let Some((world, folder)) = with_token() else {
        return;
    };
    let file = folder.path().join("token");
    fs::write(&file, "00000000-0000-0000-0000-00000000dead").unwrap();
    world.register(&registration("b", addresses::POD_B, "passing"));
    let source = world.await_source("the token is refused", is_stale);
    assert!(source["stale"][0]["reason"].to_string().contains("403"));
    assert!(world.backends().contains("10.1.1.3:8080"));
    let token = world.consul.token(world.node(), "another", ALL).unwrap();
    fs::write(&file, token).unwrap();
    world.await_source("it is up to date", is_current);
    world.await_backends(&[addresses::POD_A, addresses::POD_B]);
}
