//! What several tests of attacks and of bad luck need: a world of both families, snapshots of it,
//! agents that come back, and what is listed.

use serde_json::{Value, json};
use shunt_tests::{Answer, Target, addresses};

use crate::{
    dual_stack::Family,
    world::{REQUEST, World, binary, resync_with, try_start_agent_with},
};

/// A snapshot of both families' nodes with these services.
pub(crate) fn snapshot(services: &[Value]) -> String {
    let nodes = [addresses::NODE, addresses::NODE2];
    let mut event: Value = serde_json::from_str(&resync_with(services)).unwrap();
    event["node_ips"] = json!([nodes, nodes.map(addresses::v6)].concat());
    event.to_string()
}

/// The same world with another agent in the place of the one that is killed, before its first event.
#[must_use]
pub(crate) fn restart(world: World, flags: &[&str]) -> World {
    let World {
        agent,
        pins,
        sandbox,
    } = world;
    agent.kill().unwrap();
    let agent = try_start_agent_with(&binary(), sandbox.node(), &pins, flags).unwrap();
    World {
        agent,
        pins,
        sandbox,
    }
}

/// A target from both families' clients.
pub(crate) fn both(target: Target) -> [Target; 2] {
    Family::BOTH.map(|family| family.target(target))
}

/// One exchange that must succeed.
#[track_caller]
pub(crate) fn ask(target: Target) -> Answer {
    match target.ask(REQUEST) {
        Ok(answer) => answer,
        Err(failure) => panic!("{target:?}: {failure}"),
    }
}

/// The states of the connections that are listed, by the client's port.
pub(crate) fn listed(world: &World) -> Vec<(u16, String)> {
    let rows = world.shunt(&["conntrack", "-o", "json"]).json();
    let rows = rows.as_array().unwrap().iter();
    let mut listed: Vec<_> = rows
        .map(|row| {
            let port = row["client"]["port"].as_u64().unwrap();
            let state = row["state"].as_str().unwrap().to_owned();
            (u16::try_from(port).unwrap(), state)
        })
        .collect();
    listed.sort();
    listed
}
