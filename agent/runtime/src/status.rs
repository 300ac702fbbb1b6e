//! The event loop's part of the agent's status.

use std::time::SystemTime;

use shunt_api::view::{
    self, Conflict, Interface, InterfaceState, LastError, LiveOverride, MaglevTables, SocketLb,
    SocketLbMode, Source, SourceNode, StaleSockets, Status, TableUse, Unlocated, UnreadableObject,
    Untranslated, Uplink, UplinkState,
};
use shunt_common::Counter;
use shunt_datapath as datapath;

use crate::{
    agent::Agent,
    cluster_state::{self, ClusterMonitor, ClusterNode, ClusterState},
    error::InspectError,
    held_removal::HeldRemoval,
    history::History,
    steering::{Steered, Steering},
};

/// Returns the status of `agent`, with its history, without what the tables have to be read for.
///
/// # Errors
///
/// If the counters cannot be read.
pub(super) fn assemble(
    agent: &Agent,
    history: &History,
    held: usize,
    followed: Option<&ClusterMonitor>,
    steering: &Steering,
    held_removal: Option<&HeldRemoval>,
) -> Result<Status, InspectError> {
    let History {
        started,
        pin_dir,
        applied,
        refused,
        last_error,
    } = history;
    let (renderer, datapath) = (agent.renderer(), agent.datapath());
    let counters = datapath
        .counters()
        .read()
        .map_err(|error| InspectError::Counters(error.into()))?;
    let early_drop = counters
        .iter()
        .find_map(|(counter, drops)| (*counter == Counter::ConntrackEarlyDrop).then_some(*drops));
    let tables = datapath.table_use().into_iter();
    let tables = tables.chain(datapath.connections().table_use());
    Ok(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: started.elapsed().as_secs(),
        pin_dir: pin_dir.as_ref().map(|dir| dir.display().to_string()),
        synced: renderer.is_synced(),
        held: held as u64,
        applied: *applied,
        refused: *refused,
        last_error: last_error.as_ref().map(|(text, when)| LastError {
            text: text.clone(),
            seconds_ago: when.elapsed().as_secs(),
        }),
        node_ips: renderer.nodes().all().iter().copied().collect(),
        own_node_ips: renderer.nodes().own().iter().copied().collect(),
        interfaces: datapath
            .interfaces()
            .map(|found| {
                let seconds = agent.absent_for(&found.name).as_secs();
                interface(found, seconds)
            })
            .collect(),
        conflicts: renderer.conflicts().map(|found| conflict(&found)).collect(),
        untranslated: 0,
        differences: Vec::new(),
        tables: tables.map(table_use).collect(),
        maglev: maglev(datapath.maglev_use()),
        unlocated: unlocated(agent),
        counters: counters
            .into_iter()
            .map(|(counter, packets)| (counter.name().to_owned(), packets))
            .collect(),
        conntrack_early_drop: early_drop.unwrap_or_default(),
        socket_lb: socket_lb(datapath.sockets()),
        stale_sockets: stale_sockets(datapath.stale_sockets()),
        source: followed.map(|followed| source(followed.snapshot())),
        listeners: Vec::new(),
        take_over: None,
        local_api: None,
        consul: None,
        uplinks: datapath.uplinks().map(uplink).collect(),
        host: Vec::new(),
        socket_recreated: 0,
        overrides: overrides(agent, steering),
        held_removal: held_removal.map(HeldRemoval::view),
        monitor: view::MonitorUse::default(),
    })
}

/// Returns an operator's changes.
fn overrides(agent: &Agent, steering: &Steering) -> Vec<LiveOverride> {
    let now = SystemTime::now();
    let all = steering
        .iter()
        .map(|Steered { change, until }| LiveOverride {
            endpoints: agent.renderer().count_meant(change) as u64,
            ends_in_seconds: until.map(|end| end.duration_since(now).unwrap_or_default().as_secs()),
            change: view::Override(change.clone()),
        });
    all.collect()
}

/// The endpoints elsewhere of services in mode dsr whose node is not known.
fn unlocated(agent: &Agent) -> Vec<Unlocated> {
    let endpoints = agent.renderer().unlocated().into_iter();
    endpoints
        .map(|(service, address)| Unlocated {
            service: service.to_string(),
            address,
        })
        .collect()
}

fn source(state: ClusterState) -> Source {
    let ClusterState {
        name,
        connected,
        since,
        trouble,
        synced,
        last_event,
        last_relist,
        relists,
        services,
        endpoint_slices,
        endpoints,
        nodes,
        service_cidrs,
        pending,
        pending_since,
        node,
        untranslated,
        unreadable,
        first_unreadable,
    } = state;
    let ClusterNode {
        name: node_name,
        found,
        zone,
        addresses,
    } = node;
    // A clock that was set back makes it now.
    let ago = |time: SystemTime| time.elapsed().unwrap_or_default();
    Source {
        name,
        connected,
        since_seconds_ago: ago(since).as_secs(),
        trouble,
        synced,
        last_event_seconds_ago: last_event.map(|time| ago(time).as_secs()),
        last_relist_seconds_ago: last_relist.map(|time| ago(time).as_secs()),
        relists,
        services,
        endpoint_slices,
        endpoints,
        nodes,
        service_cidrs: service_cidrs
            .iter()
            .flatten()
            .map(ToString::to_string)
            .collect(),
        pending,
        lag_milliseconds: pending_since.map(|since| since.elapsed().as_millis() as u64),
        node: SourceNode {
            name: node_name,
            found,
            zone,
            addresses,
        },
        untranslated: untranslated
            .into_iter()
            .map(|(service, reasons)| Untranslated { service, reasons })
            .collect(),
        unreadable,
        first_unreadable: first_unreadable
            .into_iter()
            .map(|object| {
                let cluster_state::UnreadableObject { kind, name, reason } = object;
                UnreadableObject {
                    object: format!("{kind}: {name}"),
                    reason,
                }
            })
            .collect(),
    }
}

fn stale_sockets(sockets: &datapath::StaleSockets) -> StaleSockets {
    let datapath::Cured {
        moved_udp,
        destroyed_udp,
        destroyed_tcp,
    } = sockets.cured();
    StaleSockets {
        destroyed_udp,
        destroyed_tcp,
        moved_udp,
        trouble: sockets.trouble(),
    }
}

/// As it is shown; if it is absent, it is for so many seconds.
fn interface(interface: datapath::InterfaceStatus, seconds: u64) -> Interface {
    let datapath::InterfaceStatus {
        name,
        pattern,
        state,
    } = interface;
    Interface {
        name,
        pattern,
        state: match state {
            datapath::InterfaceState::Absent => InterfaceState::Absent { seconds },
            datapath::InterfaceState::Attaching => InterfaceState::Attaching,
            datapath::InterfaceState::Loading => InterfaceState::Loading,
            datapath::InterfaceState::Attached { index } => InterfaceState::Attached { index },
            datapath::InterfaceState::Failed(reason) => InterfaceState::Failed { reason },
        },
    }
}

fn uplink(uplink: datapath::UplinkStatus) -> Uplink {
    let datapath::UplinkStatus { name, state } = uplink;
    Uplink {
        name,
        state: match state {
            datapath::UplinkState::Loading => UplinkState::Loading,
            datapath::UplinkState::Absent => UplinkState::Absent,
            datapath::UplinkState::Attached {
                index,
                native: true,
                ..
            } => UplinkState::Native { index },
            datapath::UplinkState::Attached { index, note, .. } => UplinkState::Generic {
                index,
                reason: note,
            },
            datapath::UplinkState::Failed(reason) => UplinkState::Failed { reason },
        },
    }
}

fn conflict(conflict: &shunt_model::Conflict) -> Conflict {
    let shunt_model::Conflict {
        key,
        holder,
        waiting,
        precedence: _,
    } = conflict;
    Conflict {
        frontend: (*key).into(),
        holder: holder.to_string(),
        waiting: waiting.to_string(),
    }
}

fn table_use(table: datapath::TableUse) -> TableUse {
    let datapath::TableUse {
        name,
        used,
        retired,
        capacity,
    } = table;
    TableUse {
        name: name.to_owned(),
        used: used.into(),
        retired: retired.into(),
        capacity: capacity.into(),
    }
}

fn maglev(tables: datapath::MaglevUse) -> MaglevTables {
    let datapath::MaglevUse {
        tables,
        slots,
        without_room,
    } = tables;
    MaglevTables {
        tables,
        slots,
        without_room: without_room.into_iter().collect(),
    }
}

fn socket_lb(sockets: datapath::SocketStatus) -> SocketLb {
    let datapath::SocketStatus {
        mode,
        cgroup,
        is_root,
        hooks,
        problem,
    } = sockets;
    SocketLb {
        mode: match mode {
            datapath::SocketLb::Off => SocketLbMode::Off,
            datapath::SocketLb::Host => SocketLbMode::Host,
            datapath::SocketLb::All => SocketLbMode::All,
        },
        cgroup: cgroup.map(|path| path.display().to_string()),
        root: is_root,
        hooks: hooks.into_iter().map(str::to_owned).collect(),
        problem,
    }
}
