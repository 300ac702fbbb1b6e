//! Services as events describe them: plain values, and the names that they are given here.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde_json::{Value, json};

use super::{
    addresses::LOCAL_BACKEND_WEIGHT,
    nodes::Nodes,
    split::{Split, Target},
};

/// An address and a port, in host byte order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Endpoint {
    pub ip: IpAddr,
    pub port: u16,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", SocketAddr::new(self.ip, self.port))
    }
}

/// A transport protocol, by its IANA number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Protocol(pub u8);

impl Protocol {
    pub(crate) const TCP: Self = Self(6);
    pub(crate) const UDP: Self = Self(17);
    pub(crate) const SCTP: Self = Self(132);

    /// Protocols that are translated.
    pub(crate) const ALL: [Self; 3] = [Self::TCP, Self::UDP, Self::SCTP];
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TCP => f.write_str("TCP"),
            Self::UDP => f.write_str("UDP"),
            Self::SCTP => f.write_str("SCTP"),
            Self(number) => write!(f, "protocol {number}"),
        }
    }
}

/// The set of backends that a frontend may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Cluster,
    Local,
}

/// State of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    Terminating,
    /// Terminating, and still serving: where nothing ready is left, it takes new connections.
    Serving,
    NotReady,
}

/// A backend of a service port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Backend {
    pub at: Endpoint,
    pub weight: u32,
    pub local: bool,
    /// The name of its node, if the event has it.
    pub node: Option<&'static str>,
    pub state: State,
    /// The sets that it belongs to, if the event has it.
    pub scopes: Option<Vec<Policy>>,
}

impl Backend {
    /// Returns whether it belongs to the set of `policy`; by default to Cluster, and to Local if it is.
    pub(crate) fn is_in(&self, policy: Policy) -> bool {
        match &self.scopes {
            Some(scopes) => scopes.contains(&policy),
            None => policy == Policy::Cluster || self.local,
        }
    }

    /// Returns whether it is known to connections; `NotReady` ones are as good as absent.
    pub(crate) fn is_listed(&self) -> bool {
        self.state != State::NotReady
    }

    /// Returns whether it takes new connections.
    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Ready && self.weight > 0
    }

    /// Returns whether it takes new connections of frontends that have come down to such backends.
    pub(crate) fn is_serving(&self) -> bool {
        self.state == State::Serving && self.weight > 0
    }

    /// Returns whether it takes new connections of some frontend, wherever that is.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_ready() || self.is_serving()
    }

    /// Returns whether it takes new connections in the set of `policy`, among `all` of its port and family.
    pub(crate) fn is_usable_in(&self, policy: Policy, all: &[&Self]) -> bool {
        let falls_back = !all.iter().any(|one| one.is_ready() && one.is_in(policy));
        self.is_in(policy) && (self.is_ready() || falls_back && self.is_serving())
    }

    fn json(&self) -> Value {
        let Self {
            at: Endpoint { ip, port },
            weight,
            local,
            node,
            state,
            scopes,
        } = self;
        let (state, serving) = match state {
            State::Ready => ("Ready", true),
            State::Terminating => ("Terminating", false),
            State::Serving => ("Terminating", true),
            State::NotReady => ("NotReady", true),
        };
        let mut value = json!({
            "ip": ip, "port": port, "weight": weight, "local": local, "state": state,
            "serving": serving,
        });
        if let Some(node) = node {
            value["node"] = (*node).into();
        }
        if let Some(scopes) = scopes {
            let names = scopes.iter().map(|scope| format!("{scope:?}"));
            value["scopes"] = names.collect();
        }
        value
    }
}

/// A port of a service with its backends, sorted, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub protocol: Protocol,
    pub port: u16,
    /// 0: none.
    pub node_port: u16,
    pub backends: Vec<Backend>,
    /// Split of its connections, in place of its own backends.
    pub split: Option<Split>,
}

impl Service {
    /// Returns the weight of a local backend of the port: where a Maglev table selects, that of others.
    pub(crate) fn local_backend_weight(&self, port: &Port) -> u32 {
        let lists = [
            &self.cluster_ips,
            &self.external_ips,
            &self.load_balancer_ips,
        ];
        let has_frontends = port.node_port > 0 || lists.iter().any(|list| !list.is_empty());
        if self.maglev && has_frontends {
            1
        } else {
            LOCAL_BACKEND_WEIGHT
        }
    }

    /// Returns whether any frontend of the port selects from the Local set, whichever service holds it.
    pub(crate) fn selects_locally(&self, port: &Port) -> bool {
        let has_external = !self.external_ips.is_empty()
            || !self.load_balancer_ips.is_empty()
            || port.node_port > 0;
        (self.external_policy == Policy::Local || self.dsr) && has_external
            || self.internal_policy == Policy::Local && !self.cluster_ips.is_empty()
    }
}

/// The number that is a service's name.
pub(crate) type ServiceId = u8;
/// The index of a port is its name.
pub(crate) type PortName = usize;

/// A service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub id: ServiceId,
    pub cluster_ips: Vec<IpAddr>,
    pub external_ips: Vec<IpAddr>,
    pub load_balancer_ips: Vec<IpAddr>,
    /// Address and prefix length.
    pub source_ranges: Vec<(IpAddr, u8)>,
    pub external_policy: Policy,
    pub internal_policy: Policy,
    /// Seconds; 0: off.
    pub affinity: u32,
    /// True if all its frontends select by a Maglev table.
    pub maglev: bool,
    /// True if packets for its external addresses go to their backends' nodes in envelopes.
    pub dsr: bool,
    /// True if connections from outside are to be masqueraded towards backends here, too.
    pub masquerade: bool,
    pub ports: Vec<Port>,
}

impl Service {
    /// Returns whether it has an address of this family, or none at all: then it is of both.
    pub(crate) fn has_family_of(&self, ip: IpAddr) -> bool {
        let lists = [
            &self.cluster_ips,
            &self.external_ips,
            &self.load_balancer_ips,
        ];
        let mut own = lists.into_iter().flatten().peekable();
        own.peek().is_none() || own.any(|own| own.is_ipv4() == ip.is_ipv4())
    }

    /// Leaves out the backends, and the addresses of splits, of a family in which it has no address: an event with
    /// them is refused.
    pub(crate) fn without_foreign_backends(mut self) -> Self {
        let mut ports = std::mem::take(&mut self.ports);
        for port in &mut ports {
            port.backends
                .retain(|backend| self.has_family_of(backend.at.ip));
            if let Some(split) = &mut port.split {
                split.parts.retain(|(target, _)| match target {
                    Target::Address(at) => self.has_family_of(at.ip),
                    _ => true,
                });
            }
        }
        self.ports = ports;
        self
    }

    /// Removes what a split excludes: a service with a split selects by its weights and hands no packet on,
    /// because the slot that a packet comes by is not modelled for it.
    pub(crate) fn without_what_splits_exclude(&mut self) {
        if self.ports.iter().any(|port| port.split.is_some()) {
            self.maglev = false;
            self.dsr = false;
        }
    }

    fn json(&self) -> Value {
        let Self {
            id,
            cluster_ips,
            external_ips,
            load_balancer_ips,
            source_ranges,
            external_policy,
            internal_policy,
            affinity,
            maglev,
            dsr,
            masquerade,
            ports,
        } = self;
        let mut value = json!({
            "id": id_json(*id),
            "cluster_ips": cluster_ips,
            "external_ips": external_ips,
            "load_balancer_ips": load_balancer_ips,
            "traffic_policy": format!("{external_policy:?}"),
            "internal_traffic_policy": format!("{internal_policy:?}"),
            "session_affinity_timeout": affinity,
            "masquerade": masquerade,
            "ports": {},
            "backends": {},
            "splits": {},
        });
        if *maglev {
            value["selection"] = "maglev".into();
        }
        if *dsr {
            value["forwarding"] = "dsr".into();
        }
        let ranges = source_ranges.iter();
        value["load_balancer_source_ranges"] = ranges
            .map(|(ip, length)| format!("{ip}/{length}"))
            .collect();
        for (name, port) in ports.iter().enumerate() {
            let name = format!("p{name}");
            let protocol = format!("{:?}", port.protocol);
            value["ports"][&name] = json!({
                "protocol": protocol, "port": port.port, "node_port": port.node_port,
            });
            value["backends"][&name] = port.backends.iter().map(Backend::json).collect();
            if let Some(split) = &port.split {
                value["splits"][&name] = split.json(*id, port);
            }
        }
        value
    }
}

pub(super) fn id_json(id: ServiceId) -> Value {
    json!({ "namespace": "model", "name": format!("s{id}") })
}

/// An event, as the model and the agent get it.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Resync(Vec<IpAddr>, Nodes, Vec<Service>),
    Add(Service),
    Update(Service),
    Delete(ServiceId),
    NodePorts(Vec<IpAddr>, Vec<Service>),
    Nodes(Nodes),
}

impl Event {
    /// The line for the agent.
    pub(crate) fn line(&self) -> String {
        let all = |services: &[Service]| services.iter().map(Service::json).collect::<Value>();
        match self {
            Self::Resync(ips, nodes, services) => json!({
                "event": "Resync", "node_ips": ips, "nodes": nodes, "services": all(services),
                "frontend_ifs": [], "backend_ifs": [],
            }),
            Self::Add(service) => json!({ "event": "AddService", "service": service.json() }),
            Self::Update(service) => json!({ "event": "UpdateService", "service": service.json() }),
            Self::Delete(id) => json!({ "event": "DeleteService", "id": id_json(*id) }),
            Self::NodePorts(nodes, services) => json!({
                "event": "UpdateNodePortServices", "node_ips": nodes, "services": all(services),
            }),
            Self::Nodes(nodes) => json!({ "event": "UpdateNodes", "nodes": nodes }),
        }
        .to_string()
    }
}
