//! The result of a lookup, for people.

use std::io::{self, Write};

use shunt_api::view::{BehindEndpoint, Frontend, Membership, ServiceTarget, Target, Who, Workload};
use shunt_model::Escaped;

use crate::{found::Found, frontend_table::brief, split_table::write_splits, table::Table};

/// Writes what was found, each part that there is under its heading.
///
/// # Errors
///
/// The output cannot be written.
pub fn write_found(found: &Found, out: &mut impl Write) -> io::Result<()> {
    let Found {
        answer,
        frontends,
        backend_of,
        missing,
    } = found;
    if answer.generation == 0 {
        writeln!(out, "the agent was not told yet what there is")?;
    } else if answer.targets.is_empty() {
        writeln!(out, "nobody that is known has this address")?;
    }
    for target in &answer.targets {
        writeln!(out, "{}", Escaped(describe(target)))?;
    }
    if !answer.endpoints.is_empty() {
        writeln!(out, "Endpoints behind it:")?;
        write!(out, "{}", endpoints(&answer.endpoints))?;
    }
    if !answer.member_of.is_empty() {
        writeln!(out, "An endpoint of:")?;
        write!(out, "{}", memberships(&answer.member_of))?;
    }
    write_frontends("Frontends here:", frontends, out)?;
    write_frontends("A backend of:", backend_of, out)?;
    for key in missing {
        writeln!(out, "the kernel lacks the frontend {key}")?;
    }
    for frontend in frontends.iter().chain(backend_of) {
        if let Some(difference) = frontend.difference {
            let key = frontend.key;
            writeln!(out, "the kernel's frontend {key} is {difference}")?;
        }
    }
    Ok(())
}

fn write_frontends(heading: &str, list: &[Frontend], out: &mut impl Write) -> io::Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    writeln!(out, "{heading}")?;
    write!(out, "{}", brief(list))?;
    write_splits(list, out)
}

/// A target in one line.
pub fn describe(target: &Target) -> String {
    let Target { kind, in_use, who } = target;
    let who = match who {
        Who::Service(service) => of_service(kind, service),
        Who::HealthCheck { service, port } => {
            format!("{kind} {port} of service {service}")
        }
        Who::Workload(workload) if *kind == workload.kind => of_workload(workload),
        Who::Workload(workload) => format!("{kind} of {}", of_workload(workload)),
        Who::Node { name, own } => {
            let name = name.as_deref().unwrap_or("a node whose name is not known");
            let own = if *own { ", this node" } else { "" };
            format!("{kind} {name}{own}")
        }
        Who::UndefinedPort { service, address } => {
            format!("{kind}: service {service}, whose {address} it is, does not declare the port")
        }
    };
    if *in_use {
        who
    } else {
        format!("{who} (another comes first)")
    }
}

fn of_service(kind: &str, target: &ServiceTarget) -> String {
    let ServiceTarget {
        service,
        port_name,
        port,
        protocol,
        frontend,
        ..
    } = target;
    let frontend = frontend.map_or_else(String::new, |key| format!(" {key}"));
    let name = if port_name.is_empty() {
        String::new()
    } else {
        format!(" {port_name}")
    };
    format!("{kind}{frontend} of service {service}, port{name} {port}/{protocol}")
}

fn of_workload(workload: &Workload) -> String {
    let Workload {
        kind,
        namespace,
        name,
        node,
        phase,
        owner,
        ..
    } = workload;
    let node = node
        .as_ref()
        .map_or_else(String::new, |node| format!(" on {node}"));
    let owner = owner
        .as_ref()
        .map_or_else(String::new, |owner| format!(", of {owner}"));
    format!("{kind} {namespace}/{name}{node}, {phase}{owner}")
}

/// Returns the conditions of an endpoint, such as `ready`.
fn state(endpoint: &BehindEndpoint) -> &'static str {
    conditions(endpoint.ready, endpoint.serving, endpoint.terminating)
}

const fn conditions(ready: bool, serving: bool, terminating: bool) -> &'static str {
    match (ready, serving, terminating) {
        (true, _, _) => "ready",
        (false, true, true) => "terminating, serving",
        (false, false, true) => "terminating",
        (false, true, false) => "not ready, serving",
        (false, false, false) => "not ready",
    }
}

/// Returns the datapath's use of an endpoint, and that for clients on this node if it is another.
fn used(endpoint: &BehindEndpoint) -> String {
    let BehindEndpoint {
        used, used_here, ..
    } = endpoint;
    let word = |used: &str| match used {
        "new" => "new connections",
        "open" => "open connections",
        _ => "nothing",
    };
    if used == used_here {
        word(used).to_owned()
    } else {
        format!("{}; on this node: {}", word(used), word(used_here))
    }
}

/// An endpoint in one line.
pub fn endpoint_line(endpoint: &BehindEndpoint) -> String {
    let BehindEndpoint {
        key,
        service,
        weight,
        ..
    } = endpoint;
    let (state, used) = (state(endpoint), used(endpoint));
    let port = key.frontend_port;
    format!("{key} behind port {port}, of {service}: {state}, weight {weight}, used for {used}")
}

fn endpoints(list: &[BehindEndpoint]) -> Table<9> {
    let mut table = Table::new([
        "PORT", "ENDPOINT", "SERVICE", "STATE", "NODE", "ZONE", "WEIGHT", "USED FOR", "RUNS",
    ]);
    for endpoint in list {
        let BehindEndpoint {
            key,
            service,
            local,
            node,
            zone,
            weight,
            workload,
            ..
        } = endpoint;
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let node = if *local {
            "this node".to_owned()
        } else {
            known(node)
        };
        let runs = workload.as_ref().map_or_else(
            || "-".to_owned(),
            |Workload {
                 kind,
                 namespace,
                 name,
                 ..
             }| format!("{kind} {namespace}/{name}"),
        );
        table.push([
            key.frontend_port.to_string(),
            key.to_string(),
            service.clone(),
            state(endpoint).to_owned(),
            node,
            known(zone),
            weight.to_string(),
            used(endpoint),
            runs,
        ]);
    }
    table
}

fn memberships(list: &[Membership]) -> Table<4> {
    let mut table = Table::new(["SERVICE", "PORT", "ENDPOINT'S PORT", "STATE"]);
    for membership in list {
        let Membership {
            service,
            port_name,
            port,
            protocol,
            endpoint_port,
            ready,
            serving,
            terminating,
        } = membership;
        let port = format!("{port_name} {port}/{protocol}");
        table.push([
            service.clone(),
            port.trim_start().to_owned(),
            endpoint_port.to_string(),
            conditions(*ready, *serving, *terminating).to_owned(),
        ]);
    }
    table
}
