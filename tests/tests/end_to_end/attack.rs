//! Parts that several tests of attacks and of bad luck share: a world of both families, snapshots
//! of it, connections from a certain port, and lists.

use std::{io::ErrorKind, time::Duration};

use serde_json::{Value, json};
use shunt_tests::{Answer, Connection, Failure, Target, addresses, wait_until};

use crate::{
    dual_stack::Family,
    world::{REQUEST, World, resync_with},
};

/// A snapshot of both families' nodes with these services.
pub(crate) fn snapshot(services: &[Value]) -> String {
    let nodes = [addresses::NODE, addresses::NODE2];
    let mut event: Value = serde_json::from_str(&resync_with(services)).unwrap();
    event["node_ips"] = json!([nodes, nodes.map(addresses::v6)].concat());
    event.to_string()
}

/// For how long a kernel may hold a port that has just been let go.
const SOON: Duration = Duration::from_secs(3);

/// Connects as soon as the kernel lets the port go.
#[track_caller]
pub(crate) fn connect_when_free(target: Target) -> Connection {
    match try_when_free(target) {
        Ok(connection) => connection,
        Err(failure) => panic!("{target:?}: {failure}"),
    }
}

/// The same where it may fail.
pub(crate) fn try_when_free(target: Target) -> Result<Connection, Failure> {
    let busy = [ErrorKind::AddrNotAvailable, ErrorKind::AddrInUse];
    let connected = wait_until("the port is free", SOON, || match target.connect() {
        Err(Failure::Other(error)) if busy.contains(&error.kind()) => None,
        outcome => Some(outcome),
    });
    connected.unwrap()
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

/// Returns the number of connections that have given way before their time.
pub(crate) fn early_drops(world: &World) -> u64 {
    let status = world.shunt(&["status", "-o", "json"]).json();
    status["conntrack_early_drop"].as_u64().unwrap()
}
