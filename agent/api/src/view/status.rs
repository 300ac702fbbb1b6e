//! Status of an agent.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Serialize;

use crate::{
    proto::{self, CounterValue, StatusResponse, interface},
    view::{
        consul::Consul,
        error::{Malformed, address},
        frontend::{Difference, FrontendKey, key},
        listener::Listener,
        local_api::LocalApi,
        maglev::MaglevTables,
        monitor_use::MonitorUse,
        overrides::{HeldRemoval, LiveOverride},
        socket_lb::SocketLb,
        source::Source,
        stale_sockets::StaleSockets,
        take_over::TakeOver,
        text::shown,
        unlocated::Unlocated,
        uplink::Uplink,
    },
};

/// Status of an agent, and its history. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The agent's version.
    pub version: String,
    /// Since its start.
    pub uptime_seconds: u64,
    /// Directory in which tables, programs and links are pinned, if they are.
    pub pin_dir: Option<String>,
    /// True if a Resync was applied since its start.
    pub synced: bool,
    /// Events that are held until one is.
    pub held: u64,
    /// Events that took effect since its start.
    pub applied: u64,
    /// Events that were refused since then, whatever way they came.
    pub refused: u64,
    /// The last of these.
    pub last_error: Option<LastError>,
    /// The addresses of all nodes of the cluster.
    pub node_ips: Vec<IpAddr>,
    /// Addresses of this node.
    pub own_node_ips: Vec<IpAddr>,
    /// Every interface that is to have the programs, by name.
    pub interfaces: Vec<Interface>,
    /// Every frontend that a service waits for, because another has it.
    pub conflicts: Vec<Conflict>,
    /// Every frontend where kernel and events disagree, sorted; none before the first Resync.
    pub differences: Vec<FrontendDifference>,
    /// Frontends that are not in the kernel because their address family is left out.
    pub untranslated: u64,
    /// Use of the tables.
    pub tables: Vec<TableUse>,
    /// The tables of frontends that select by Maglev.
    pub maglev: MaglevTables,
    /// The endpoints elsewhere of services in mode dsr whose node is not known, sorted.
    pub unlocated: Vec<Unlocated>,
    /// The programs' counters since they were loaded: packets, by the counter's name.
    pub counters: BTreeMap<String, u64>,
    /// Connections that were removed before their time since the agent's start, because the
    /// conntrack table was crowded.
    pub conntrack_early_drop: u64,
    /// Translation at the socket.
    pub socket_lb: SocketLb,
    /// The sockets of the node's processes whose backend is gone.
    pub stale_sockets: StaleSockets,
    /// The source that follows a cluster, if there is one.
    pub source: Option<Source>,
    /// Addresses at which the agent answers over HTTP, sorted.
    pub listeners: Vec<Listener>,
    /// Take-over from kube-proxy, if the agent reports it.
    pub take_over: Option<TakeOver>,
    /// Every interface that is to have the XDP program, by name.
    pub uplinks: Vec<Uplink>,
    /// Services that are registered with the agent itself; `None` if none can be.
    pub local_api: Option<LocalApi>,
    /// The source that follows Consul, if there is one.
    pub consul: Option<Consul>,
    /// Faults of the host that stand in the way now, a sentence each.
    pub host: Vec<String>,
    /// Number of times that the file of the agent's socket was made anew, because another process had removed it.
    pub socket_recreated: u64,
    /// An operator's changes on this node, beside the events.
    pub overrides: Vec<LiveOverride>,
    /// An event that would remove more frontends than it may, and waits for a decision.
    pub held_removal: Option<HeldRemoval>,
    /// Watchers of connections and packets.
    pub monitor: MonitorUse,
}

/// An event that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// Text of the log.
    pub text: String,
    /// Time since then.
    pub seconds_ago: u64,
}

/// An interface that is to have the programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name; that of a pattern that means no interface is the pattern.
    pub name: String,
    /// The pattern that it was chosen by, `None` if that was its name.
    pub pattern: Option<String>,
    /// State of the interface.
    #[serde(flatten)]
    pub state: InterfaceState,
}

/// State of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum InterfaceState {
    /// The programs run on it.
    Attached {
        /// The kernel's index of it.
        index: u32,
    },
    /// It is about to get the programs.
    Attaching,
    /// The kernel verifies its programs, which are the first of their kind.
    Loading,
    /// There is none of this name, or that the pattern means: it is waited for.
    Absent {
        /// For how long.
        seconds: u64,
    },
    /// The kernel refused the programs.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A frontend that a service waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The frontend.
    #[serde(serialize_with = "shown")]
    pub frontend: FrontendKey,
    /// The service that has it, `namespace/name`.
    pub holder: String,
    /// The service that waits for it, `namespace/name`.
    pub waiting: String,
}

/// A frontend where kernel and events disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FrontendDifference {
    /// The frontend.
    #[serde(serialize_with = "shown")]
    pub frontend: FrontendKey,
    /// Kind of the difference.
    pub difference: Difference,
}

/// Use of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableUse {
    /// Its content and family: `frontends_v4`.
    pub name: String,
    /// Entries in use.
    pub used: u64,
    /// Entries that were replaced and are not free yet.
    pub retired: u64,
    /// Entries in all.
    pub capacity: u64,
}

impl From<Status> for StatusResponse {
    fn from(status: Status) -> Self {
        let Status {
            version,
            uptime_seconds,
            pin_dir,
            synced,
            held,
            applied,
            refused,
            last_error,
            node_ips,
            own_node_ips,
            interfaces,
            conflicts,
            differences,
            untranslated,
            tables,
            maglev,
            unlocated,
            counters,
            conntrack_early_drop,
            socket_lb,
            stale_sockets,
            source,
            listeners,
            take_over,
            consul,
            uplinks,
            local_api,
            host,
            socket_recreated,
            overrides,
            held_removal,
            monitor,
        } = status;
        let texts = |list: Vec<IpAddr>| list.iter().map(ToString::to_string).collect();
        Self {
            version,
            uptime_seconds,
            pin_dir,
            synced,
            held,
            applied,
            refused,
            last_error: last_error
                .map(|LastError { text, seconds_ago }| proto::LastError { text, seconds_ago }),
            node_ips: texts(node_ips),
            own_node_ips: texts(own_node_ips),
            interfaces: interfaces.into_iter().map(Into::into).collect(),
            conflicts: conflicts.into_iter().map(Into::into).collect(),
            differences: differences.into_iter().map(Into::into).collect(),
            untranslated,
            tables: tables.into_iter().map(Into::into).collect(),
            counters: counters
                .into_iter()
                .map(|(name, packets)| CounterValue { name, packets })
                .collect(),
            conntrack_early_drop,
            socket_lb: Some(socket_lb.into()),
            stale_sockets: Some(stale_sockets.into()),
            source: source.map(Into::into),
            listeners: listeners.into_iter().map(Into::into).collect(),
            take_over: take_over.map(Into::into),
            consul: consul.map(Into::into),
            uplinks: uplinks.into_iter().map(Into::into).collect(),
            maglev: Some(maglev.into()),
            unlocated: unlocated.into_iter().map(Into::into).collect(),
            local_api: local_api.map(Into::into),
            host,
            socket_recreated,
            overrides: overrides.into_iter().map(Into::into).collect(),
            held_removal: held_removal.map(Into::into),
            monitor: Some(monitor.into()),
        }
    }
}

impl TryFrom<StatusResponse> for Status {
    type Error = Malformed;

    fn try_from(status: StatusResponse) -> Result<Self, Malformed> {
        let StatusResponse {
            version,
            uptime_seconds,
            pin_dir,
            synced,
            held,
            applied,
            refused,
            last_error,
            node_ips,
            own_node_ips,
            interfaces,
            conflicts,
            differences,
            untranslated,
            tables,
            counters,
            conntrack_early_drop,
            socket_lb,
            stale_sockets,
            source,
            listeners,
            take_over,
            consul,
            uplinks,
            maglev,
            unlocated,
            local_api,
            host,
            socket_recreated,
            overrides,
            held_removal,
            monitor,
        } = status;
        Ok(Self {
            version,
            uptime_seconds,
            pin_dir,
            synced,
            held,
            applied,
            refused,
            last_error: last_error
                .map(|proto::LastError { text, seconds_ago }| LastError { text, seconds_ago }),
            node_ips: all(node_ips, |text| address(&text))?,
            own_node_ips: all(own_node_ips, |text| address(&text))?,
            interfaces: all(interfaces, Interface::try_from)?,
            conflicts: all(conflicts, Conflict::try_from)?,
            differences: all(differences, FrontendDifference::try_from)?,
            untranslated,
            tables: tables.into_iter().map(Into::into).collect(),
            counters: counters
                .into_iter()
                .map(|CounterValue { name, packets }| (name, packets))
                .collect(),
            conntrack_early_drop,
            socket_lb: socket_lb.unwrap_or_default().try_into()?,
            stale_sockets: stale_sockets.unwrap_or_default().into(),
            source: source.map(Source::try_from).transpose()?,
            listeners: listeners.into_iter().map(Into::into).collect(),
            take_over: take_over.map(Into::into),
            consul: consul.map(Into::into),
            uplinks: all(uplinks, Uplink::try_from)?,
            maglev: maglev.unwrap_or_default().into(),
            unlocated: unlocated
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            local_api: local_api.map(Into::into),
            host,
            socket_recreated,
            overrides: all(overrides, LiveOverride::try_from)?,
            held_removal: held_removal.map(Into::into),
            monitor: monitor.unwrap_or_default().into(),
        })
    }
}

fn all<M, T>(
    messages: Vec<M>,
    value: impl FnMut(M) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    messages.into_iter().map(value).collect()
}

impl From<Interface> for proto::Interface {
    fn from(interface: Interface) -> Self {
        let Interface {
            name,
            pattern,
            state,
        } = interface;
        let absent_seconds = match state {
            InterfaceState::Absent { seconds } => seconds,
            _ => 0,
        };
        let (state, index, reason) = match state {
            InterfaceState::Attaching => (interface::State::Attaching, 0, String::new()),
            InterfaceState::Loading => (interface::State::Loading, 0, String::new()),
            InterfaceState::Absent { .. } => (interface::State::Absent, 0, String::new()),
            InterfaceState::Attached { index } => {
                (interface::State::Attached, index, String::new())
            }
            InterfaceState::Failed { reason } => (interface::State::Failed, 0, reason),
        };
        Self {
            name,
            state: state.into(),
            index,
            reason,
            pattern: pattern.unwrap_or_default(),
            absent_seconds,
        }
    }
}

impl TryFrom<proto::Interface> for Interface {
    type Error = Malformed;

    fn try_from(message: proto::Interface) -> Result<Self, Malformed> {
        let proto::Interface {
            name,
            state,
            index,
            reason,
            pattern,
            absent_seconds,
        } = message;
        let state = match interface::State::try_from(state) {
            Ok(interface::State::Attaching) => InterfaceState::Attaching,
            Ok(interface::State::Loading) => InterfaceState::Loading,
            Ok(interface::State::Absent) => InterfaceState::Absent {
                seconds: absent_seconds,
            },
            Ok(interface::State::Attached) => InterfaceState::Attached { index },
            Ok(interface::State::Failed) => InterfaceState::Failed { reason },
            Ok(interface::State::Unspecified) | Err(_) => {
                return Err(Malformed::Value(state, "state of an interface"));
            }
        };
        Ok(Self {
            name,
            pattern: (!pattern.is_empty()).then_some(pattern),
            state,
        })
    }
}

impl From<Conflict> for proto::Conflict {
    fn from(conflict: Conflict) -> Self {
        let Conflict {
            frontend,
            holder,
            waiting,
        } = conflict;
        Self {
            frontend: Some(frontend.into()),
            holder,
            waiting,
        }
    }
}

impl TryFrom<proto::Conflict> for Conflict {
    type Error = Malformed;

    fn try_from(conflict: proto::Conflict) -> Result<Self, Malformed> {
        let proto::Conflict {
            frontend,
            holder,
            waiting,
        } = conflict;
        Ok(Self {
            frontend: key(frontend)?,
            holder,
            waiting,
        })
    }
}

impl From<FrontendDifference> for proto::FrontendDifference {
    fn from(difference: FrontendDifference) -> Self {
        let FrontendDifference {
            frontend,
            difference,
        } = difference;
        Self {
            frontend: Some(frontend.into()),
            difference: proto::Difference::from(difference).into(),
        }
    }
}

impl TryFrom<proto::FrontendDifference> for FrontendDifference {
    type Error = Malformed;

    fn try_from(message: proto::FrontendDifference) -> Result<Self, Malformed> {
        let proto::FrontendDifference {
            frontend,
            difference,
        } = message;
        Ok(Self {
            frontend: key(frontend)?,
            difference: Difference::of_message(difference)?
                .ok_or(Malformed::Missing("difference"))?,
        })
    }
}

impl From<TableUse> for proto::TableUse {
    fn from(table: TableUse) -> Self {
        let TableUse {
            name,
            used,
            retired,
            capacity,
        } = table;
        Self {
            name,
            used,
            capacity,
            retired,
        }
    }
}

impl From<proto::TableUse> for TableUse {
    fn from(table: proto::TableUse) -> Self {
        let proto::TableUse {
            name,
            used,
            capacity,
            retired,
        } = table;
        Self {
            name,
            used,
            retired,
            capacity,
        }
    }
}
