//! The result of one look at the agent, reduced to what is shown.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use shunt_api::view::{Connection, Difference, Frontend, FrontendKey, Status, TableUse};
use shunt_model::Escaped;

/// A service port: what is counted as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServicePort {
    /// `namespace/name`; what is in the kernel without an event has none.
    pub(super) service: String,
    /// The port's name, which may be empty.
    pub(super) port: String,
}

impl ServicePort {
    /// In one word.
    pub(super) fn label(&self) -> String {
        let Self { service, port } = self;
        if port.is_empty() {
            service.clone()
        } else {
            format!("{service}:{port}")
        }
    }
}

/// One look.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Time of the look.
    pub(super) at: Instant,
    pub(super) version: String,
    pub(super) uptime_seconds: u64,
    pub(super) services: BTreeMap<ServicePort, Counted>,
    /// Use of the tables.
    pub(super) tables: Vec<TableUse>,
    /// Counters of the programs, by name.
    pub(super) counters: BTreeMap<String, u64>,
    /// Problems, a sentence each.
    pub(super) troubles: Vec<String>,
}

/// Facts of a service port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Counted {
    /// Frontends of the service port.
    pub(super) frontends: Vec<FrontendKey>,
    /// Connections that chose a backend, in all.
    pub(super) connections: u64,
    /// Packets that were rejected or dropped, in all.
    pub(super) errors: u64,
    /// Connections that are there; `None` if they were too many to be listed.
    pub(super) active: Option<u64>,
    pub(super) backends: BTreeMap<SocketAddr, BackendUse>,
    /// Kernel and events differ.
    pub(super) differs: bool,
}

/// Facts of one backend of a service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BackendUse {
    pub(super) weight: u32,
    pub(super) local: bool,
    /// Connections that it was chosen for, in all.
    pub(super) connections: u64,
    /// Connections that are there; `None` if they were too many to be listed.
    pub(super) active: Option<u64>,
}

impl Sample {
    /// Returns the sample of the agent's answers: a brief status, and the frontends beside the number of those that the
    /// kernel lacks. The connections are missing if they were not listed.
    pub(super) fn of(
        at: Instant,
        status: Status,
        frontends: &[Frontend],
        absent: usize,
        connections: Option<&[Connection]>,
    ) -> Self {
        let mut services: BTreeMap<ServicePort, Counted> = BTreeMap::new();
        let differing = frontends.iter();
        let differing = differing.filter(|frontend| frontend.difference.is_some());
        let differences = differing.count() + absent;
        let mut ports: HashMap<(IpAddr, u16, u8), ServicePort> = HashMap::new();
        for frontend in frontends {
            let name = |text: &Option<String>| text.as_ref().map(|text| Escaped(text).to_string());
            let port = ServicePort {
                service: name(&frontend.service).unwrap_or_else(|| "-".to_owned()),
                port: name(&frontend.service_port).unwrap_or_default(),
            };
            let key = frontend.key;
            ports.insert((key.address, key.port, key.protocol.0), port.clone());
            let counted = services.entry(port).or_default();
            counted.add(frontend);
        }
        if let Some(connections) = connections {
            for counted in services.values_mut() {
                counted.active = Some(0);
                for backend in counted.backends.values_mut() {
                    backend.active = Some(0);
                }
            }
            for connection in connections {
                let frontend = connection.frontend;
                let key = (frontend.ip, frontend.port, connection.protocol.0);
                let counted = ports.get(&key).and_then(|port| services.get_mut(port));
                let Some(counted) = counted else { continue };
                counted.active = counted.active.map(|active| active + 1);
                let backend = SocketAddr::new(connection.backend.ip, connection.backend.port);
                if let Some(backend) = counted.backends.get_mut(&backend) {
                    backend.active = backend.active.map(|active| active + 1);
                }
            }
        }
        Self {
            at,
            troubles: troubles(&status, differences),
            version: status.version,
            uptime_seconds: status.uptime_seconds,
            services,
            tables: status.tables,
            counters: status.counters,
        }
    }

    /// Returns the number of connections in the tables, and the number that fit.
    pub(super) fn connections(&self) -> (u64, u64) {
        let tables = self
            .tables
            .iter()
            .filter(|table| table.name.starts_with("conntrack"));
        tables.fold((0, 0), |(used, capacity), table| {
            (used + table.used, capacity + table.capacity)
        })
    }
}

impl Counted {
    fn add(&mut self, frontend: &Frontend) {
        self.frontends.push(frontend.key);
        self.differs |= matches!(
            frontend.difference,
            Some(Difference::Changed | Difference::Unknown)
        );
        // All frontends of a service port are counted as one, and each has the same counts.
        if let Some(counters) = &frontend.counters {
            self.connections = counters.connections;
            self.errors = counters.refused_as("reject_") + counters.refused_as("drop_");
        }
        for backend in &frontend.backends {
            let address = SocketAddr::new(backend.ip, backend.port);
            let known = self.backends.entry(address).or_default();
            known.weight = known.weight.max(backend.weight);
            known.local = backend.local;
            // As is counted through any frontend of the service port.
            known.connections = known.connections.max(backend.new_connections);
        }
    }

    /// Returns the number of backends that take new connections.
    pub(super) fn usable(&self) -> usize {
        let backends = self.backends.values();
        backends.filter(|backend| backend.weight > 0).count()
    }

    /// Returns the sum of the weights of a family: the backends of the other one take none of its connections.
    pub(super) fn weights(&self, is_ipv6: bool) -> u64 {
        let backends = self.backends.iter();
        let backends = backends.filter(|(address, _)| address.is_ipv6() == is_ipv6);
        backends.map(|(_, backend)| u64::from(backend.weight)).sum()
    }
}

/// Returns the problems that an operator has to know before the numbers. Before the first Resync frontends differ only
/// because no event is known.
fn troubles(status: &Status, differences: usize) -> Vec<String> {
    let mut troubles: Vec<String> = Vec::new();
    if !status.synced {
        troubles.push("no Resync came yet: the kernel translates what it did before".to_owned());
    }
    if let Some(held) = &status.held_removal {
        troubles.push(format!(
            "an event waits that would remove {} of {} frontends: `shunt confirm {number}` or `shunt discard \
             {number}`",
            held.removed,
            held.frontends,
            number = held.number
        ));
    }
    if status.synced && differences > 0 {
        troubles.push(format!(
            "{differences} frontends are not in the kernel as the events say: `shunt status`"
        ));
    }
    if !status.conflicts.is_empty() {
        let count = status.conflicts.len();
        troubles.push(format!(
            "{count} frontends are claimed by two services: `shunt status`"
        ));
    }
    if !status.overrides.is_empty() {
        let overrides = status.overrides.iter();
        let overrides: Vec<_> = overrides
            .map(|live| Escaped(&live.change).to_string())
            .collect();
        troubles.push(format!("steered by hand: {}", overrides.join(", ")));
    }
    let host = status.host.iter().map(|text| Escaped(text).to_string());
    troubles.extend(host);
    troubles
}
