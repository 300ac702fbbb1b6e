//! What is found becomes messages.

use std::net::SocketAddr;

use tonic::Status;

use shunt_api::{
    message,
    proto::{self, Applied, StatusResponse, connection, interface},
};
use shunt_datapath::{
    Connections, InterfaceState, LiveConnection, LiveFrontend, LiveKey, Phase, TableUse,
};
use shunt_model::{Backend, Conflict, Frontend};

use crate::{
    agent::{
        Outcome,
        inspection::{AgentStatus, Difference, InspectedFrontend},
    },
    request::{Answer, Health},
};

pub(super) fn answer(answer: Answer) -> Applied {
    match answer {
        Answer::Held => Applied {
            held: true,
            ..Applied::default()
        },
        Answer::Applied(outcome) => {
            let Outcome {
                added,
                changed,
                removed,
                untranslated,
                writes,
                conflicts,
                took,
            } = outcome;
            Applied {
                held: false,
                added: added as u64,
                changed: changed as u64,
                removed: removed as u64,
                untranslated: untranslated as u64,
                writes,
                took_us: took.as_micros().try_into().unwrap_or(u64::MAX),
                conflicts: conflicts.iter().map(ToString::to_string).collect(),
            }
        }
    }
}

pub(super) fn key(key: LiveKey) -> proto::FrontendKey {
    let LiveKey {
        address,
        port,
        protocol,
    } = key;
    proto::FrontendKey {
        address: address.to_string(),
        port: port.into(),
        protocol: protocol.into(),
    }
}

const fn difference(difference: Option<Difference>) -> proto::Difference {
    match difference {
        None => proto::Difference::Unspecified,
        Some(Difference::Changed) => proto::Difference::Changed,
        Some(Difference::Unknown) => proto::Difference::Unknown,
        Some(Difference::Missing) => proto::Difference::Missing,
    }
}

pub(super) fn frontend(found: &InspectedFrontend) -> proto::Frontend {
    let InspectedFrontend { live, wanted } = found;
    let wanted = wanted.as_ref();
    let LiveFrontend { key: at, .. } = live;
    let backend = |backend: &Backend| {
        let &Backend {
            ip,
            port,
            weight,
            local,
            scopes: _,
        } = backend;
        proto::LiveBackend {
            ip: ip.to_string(),
            port: port.into(),
            weight,
            local,
        }
    };
    let policy = |frontend: &Frontend| message::policy(frontend.policy);
    proto::Frontend {
        key: Some(key(*at)),
        kind: wanted.map(|frontend| frontend.kind.name().to_owned()),
        service: wanted.map(|frontend| frontend.backends.service.to_string()),
        policy: wanted
            .map_or(proto::TrafficPolicy::Unspecified, policy)
            .into(),
        affinity_timeout: live.affinity_timeout,
        this_node_only: live.is_for_this_node(),
        backends: live.backends.iter().map(backend).collect(),
        difference: difference(found.difference()).into(),
    }
}

pub(super) fn health(health: Health) -> StatusResponse {
    let Health {
        status,
        pin_dir,
        uptime,
        applied,
        refused,
        last_error,
    } = health;
    let AgentStatus {
        synced,
        held,
        nodes,
        interfaces,
        conflicts,
        differences,
        untranslated,
        tables,
        counters,
    } = status;
    StatusResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: uptime.as_secs(),
        pin_dir: pin_dir.map(|dir| dir.display().to_string()),
        synced,
        held: held as u64,
        applied,
        refused,
        last_error: last_error.map(|(text, ago)| proto::LastError {
            text,
            seconds_ago: ago.as_secs(),
        }),
        node_ips: nodes.all().iter().map(ToString::to_string).collect(),
        own_node_ips: nodes.own().iter().map(ToString::to_string).collect(),
        interfaces: interfaces.into_iter().map(interface).collect(),
        conflicts: conflicts.iter().map(conflict).collect(),
        differences: differences
            .into_iter()
            .map(|(at, what)| proto::FrontendDifference {
                frontend: Some(key(at)),
                difference: difference(Some(what)).into(),
            })
            .collect(),
        untranslated: untranslated as u64,
        tables: tables.into_iter().map(table_use).collect(),
        counters: counters
            .into_iter()
            .map(|(counter, packets)| proto::CounterValue {
                name: counter.name().to_owned(),
                packets,
            })
            .collect(),
        // Known to the collector alone.
        conntrack_removed_for_room: 0,
    }
}

fn interface((name, state): (String, InterfaceState)) -> proto::Interface {
    let (state, index, reason) = match state {
        InterfaceState::Absent => (interface::State::Absent, 0, String::new()),
        InterfaceState::Attached { index } => (interface::State::Attached, index, String::new()),
        InterfaceState::Failed(reason) => (interface::State::Failed, 0, reason),
    };
    proto::Interface {
        name,
        state: state.into(),
        index,
        reason,
    }
}

fn conflict(conflict: &Conflict) -> proto::Conflict {
    let Conflict {
        key: at,
        holder,
        waiting,
    } = conflict;
    proto::Conflict {
        frontend: Some(key((*at).into())),
        holder: holder.to_string(),
        waiting: waiting.to_string(),
    }
}

fn table_use(table: TableUse) -> proto::TableUse {
    let TableUse {
        name,
        used,
        capacity,
    } = table;
    proto::TableUse {
        name: name.to_owned(),
        used: used.into(),
        capacity: capacity.into(),
    }
}

/// How full the conntrack tables are. Reads all of them.
pub(super) fn conntrack_use(connections: &Connections) -> Result<Vec<proto::TableUse>, Status> {
    let failed = |error| Status::internal(format!("reading the connections: {error}"));
    let tables = connections.table_use().map_err(failed)?;
    Ok(tables.into_iter().map(table_use).collect())
}

pub(super) fn connection(connection: &LiveConnection) -> proto::Connection {
    let &LiveConnection {
        protocol,
        client,
        frontend,
        backend,
        phase,
        idle,
    } = connection;
    let endpoint = |address: SocketAddr| {
        Some(proto::Endpoint {
            ip: address.ip().to_string(),
            port: address.port().into(),
        })
    };
    let phase = match phase {
        Phase::Opening => connection::Phase::Opening,
        Phase::Established => connection::Phase::Established,
        Phase::Closing => connection::Phase::Closing,
        Phase::Closed => connection::Phase::Closed,
        Phase::TimeWait => connection::Phase::TimeWait,
        Phase::OneWay => connection::Phase::OneWay,
        Phase::Replied => connection::Phase::Replied,
    };
    proto::Connection {
        protocol: protocol.into(),
        client: endpoint(client),
        frontend: endpoint(frontend),
        backend: endpoint(backend),
        phase: phase.into(),
        idle_seconds: idle,
    }
}
