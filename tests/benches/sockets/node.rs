//! A node whose agent translates the sockets of the processes in a cgroup.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    path::Path,
};

use anyhow::Result;
use serde_json::json;
use shunt_tests::{Cgroup, Namespace, addresses};

use crate::{
    load::Client,
    traffic::{
        Kind, Proxy, Subject,
        services::{Place, SERVED},
    },
};

/// The ClusterIP of the service of IPv6, which has no server: it is for `connect` alone.
const CLUSTER_IP_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0x10);

/// The owner of a client's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The node's own.
    Host,
    /// A pod's.
    Pod,
}

impl Whose {
    /// The word for it in a study's name.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Pod => "pod",
        }
    }

    /// Returns the namespace that it runs in.
    pub(super) fn namespace(self, subject: &Subject) -> &Namespace {
        match self {
            Self::Host => subject.sandbox().node(),
            Self::Pod => subject.sandbox().pod("pod-c").namespace(),
        }
    }
}

/// The node. Dropping it removes all of it, the agent first.
#[derive(Debug)]
pub(super) struct Node {
    subject: Subject,
    translated: Cgroup,
    untouched: Cgroup,
}

impl Node {
    /// One with the services of a [`Subject`], and one more of IPv6.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or the agent does not start.
    pub(super) fn new(agent: &Path) -> Result<Self> {
        let mut subject = Subject::new(kind(Proxy::Shunt))?;
        let (translated, untouched) = (Cgroup::new()?, Cgroup::new()?);
        let cgroup = translated.path().to_string_lossy();
        subject.start_agent(agent, &["--socket-lb", "all", "--cgroup", &cgroup])?;
        subject.tell(&service_v6())?;
        Ok(Self {
            subject,
            translated,
            untouched,
        })
    }

    /// Its namespaces and servers.
    pub(super) const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// A process whose sockets are translated.
    pub(super) fn translated(&self, whose: Whose) -> Client<'_> {
        Client {
            cgroup: &self.translated,
            namespace: whose.namespace(&self.subject),
        }
    }

    /// A process whose sockets are not.
    pub(super) fn untouched(&self, whose: Whose) -> Client<'_> {
        Client {
            cgroup: &self.untouched,
            namespace: whose.namespace(&self.subject),
        }
    }
}

/// A subject with the fewest services.
pub(super) const fn kind(proxy: Proxy) -> Kind {
    Kind {
        proxy,
        others: 0,
        masquerade: false,
    }
}

/// The service that is asked, of which all backends are one pod of this node.
pub(super) fn frontend() -> SocketAddrV4 {
    Place::Local.cluster_ip()
}

/// One of its backends.
pub(super) fn backend() -> SocketAddrV4 {
    SocketAddrV4::new(Place::Local.address(10), SERVED)
}

/// Two addresses at which there is no service, of pods.
pub(super) fn strangers(is_v6: bool) -> Vec<SocketAddr> {
    let ends = [addresses::POD_A, addresses::POD_B];
    let of = |address| {
        let address = if is_v6 {
            addresses::v6(address)
        } else {
            address
        };
        SocketAddr::new(address, SERVED)
    };
    ends.map(of).to_vec()
}

/// A frontend of UDP.
pub(super) fn udp_frontend(is_v6: bool) -> Vec<SocketAddr> {
    if is_v6 {
        vec![SocketAddrV6::new(CLUSTER_IP_V6, frontend().port(), 0, 0).into()]
    } else {
        vec![frontend().into()]
    }
}

/// The event of the service of IPv6.
fn service_v6() -> String {
    let backend = |address| json!({ "ip": addresses::v6(address), "port": SERVED, "local": true });
    json!({
        "event": "AddService",
        "service": {
            "id": { "namespace": "udp", "name": "local-v6" },
            "cluster_ips": [CLUSTER_IP_V6],
            "ports": { "main": { "protocol": "UDP", "port": frontend().port() } },
            "backends": { "main": [backend(addresses::POD_A), backend(addresses::POD_B)] },
        },
    })
    .to_string()
}

/// The network that ClusterIPs are in. A node needs a way there, or a process of its own has no packet
/// that rules could see.
pub(super) const CLUSTER_IPS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 96, 0, 0), 16);
