//! A node between clients outside and backends elsewhere, with the XDP program loaded and attached
//! to nothing.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use anyhow::{Context as _, Result, ensure};
use aya::programs::{ProgramFd, Xdp};
use serde_json::{Value, json};
use shunt_common::{
    Counter,
    feeder::{Plan, STATION},
};
use shunt_datapath::{Datapath, DatapathOptions, RejectLimit, XdpMode, XdpOptions};
use shunt_model::{self, InterfacePattern, RenderOptions, Renderer};
use shunt_runtime::Agent;
use shunt_tests::{NEXT_HOP_TEXT, NO_INTERFACE, Namespace, Uplinks};

use super::feeder::{Fed, Feeder};
use crate::packets::{
    node::{BACKEND_PORT, SERVICE_PORT},
    traffic::{Family, Peer},
};

/// This node's address, by which backends know all clients.
pub(super) const NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 16, 10);

/// The interface towards all others, and what is behind it.
pub(super) const UPLINK: &str = "eth0";
pub(super) const FAR_END: &str = "peer";

/// [`STATION`] as text.
const STATION_TEXT: &str = "02:00:00:00:00:01";

/// The node that has the backends of services in mode dsr.
pub(super) const OTHER_NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 16, 20);

/// Both nodes' addresses of IPv6.
pub(super) const NODE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x16, 0, 0, 0, 0, 0, 0x10);
pub(super) const OTHER_NODE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x16, 0, 0, 0, 0, 0, 0x20);

/// Distance between the numbers of a service's backends.
const APART: u32 = 256;

/// A network namespace in which every host but this node is behind one router.
pub(super) struct Network(Namespace);

impl Network {
    /// Sets it up.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn new() -> Result<Self> {
        let namespace = Namespace::new(0, "uplink")?;
        namespace.set("net/ipv4/ip_forward", "1")?;
        namespace.set("net/ipv6/conf/all/forwarding", "1")?;
        namespace.configure(&format!(
            "link add {UPLINK} type veth peer name {FAR_END}\n\
             address add {NODE}/24 dev {UPLINK}\n\
             address add {NODE_V6}/64 dev {UPLINK} nodad\n\
             link set {UPLINK} address {STATION_TEXT} up\n\
             link set {FAR_END} up\n\
             route add default via 192.168.16.1\n\
             neighbour add 192.168.16.1 lladdr {NEXT_HOP_TEXT} dev {UPLINK} nud permanent\n\
             neighbour add {OTHER_NODE} lladdr {NEXT_HOP_TEXT} dev {UPLINK} nud permanent\n\
             neighbour add {OTHER_NODE_V6} lladdr {NEXT_HOP_TEXT} dev {UPLINK} nud permanent\n"
        ))?;
        Ok(Self(namespace))
    }

    /// Does something in it.
    pub(super) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.enter(work)
    }
}

/// Services of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Services {
    pub count: u32,
    /// Of each service.
    pub backends: u32,
    /// True if they select by Maglev.
    pub by_maglev: bool,
    /// True if the program at TC is attached to [`UPLINK`].
    pub attached: bool,
}

/// An agent and its programs.
pub(super) struct Node {
    agent: Agent,
}

impl Node {
    /// A node with these services, in the namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it.
    pub(super) fn new(services: Services) -> Result<Self> {
        Self::told(&resync(services, Family::V4))
    }

    /// The same with services of this family, all of them in mode dsr.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub(super) fn in_mode_dsr(services: Services, family: Family) -> Result<Self> {
        let mut event = resync(services, family);
        event["nodes"] = match family {
            Family::V4 => json!({"this": [NODE], "other": [OTHER_NODE]}),
            Family::V6 => json!({"this": [NODE_V6], "other": [OTHER_NODE_V6]}),
        };
        for service in event["services"].as_array_mut().into_iter().flatten() {
            service["forwarding"] = "dsr".into();
            let backends = &mut service["backends"]["tcp"];
            for backend in backends.as_array_mut().into_iter().flatten() {
                backend["node"] = "other".into();
            }
        }
        Self::told(&event)
    }

    fn told(event: &Value) -> Result<Self> {
        let options = DatapathOptions {
            xdp: XdpOptions {
                mode: XdpMode::Native,
                interfaces: BTreeSet::from([InterfacePattern::Name(NO_INTERFACE.to_owned())]),
            },
            pod_cidrs: vec!["10.1.1.0/24".parse()?],
            rejects: RejectLimit { rate: 0 },
            ..DatapathOptions::default()
        };
        let mut datapath = Datapath::load(&options).context("cannot load the datapath")?;
        let mut uplinks = Uplinks::of(datapath.xdp_program()?)?;
        let renderer = Renderer::new(RenderOptions {
            node_ips: BTreeSet::from([NODE.into(), NODE_V6.into()]),
            ..RenderOptions::default()
        });
        let mut agent = Agent::new(renderer, datapath, BTreeSet::new());
        let outcome = agent.apply(shunt_model::decode(&event.to_string())?)?;
        ensure!(
            outcome.conflicts.is_empty(),
            "the services are in each other's way"
        );
        // As the scanner does from time to time.
        agent.datapath_mut().connections().count(|| true)?;
        // Applying an event has the agent look at its interfaces, none of which is an uplink.
        uplinks.set_all(STATION)?;
        Ok(Self { agent })
    }

    /// The program at the driver.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(super) fn driver(&mut self) -> Result<&Xdp> {
        Ok(self.agent.datapath_mut().xdp_program()?)
    }

    /// The same, for others to call.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(super) fn at_driver(&mut self) -> Result<ProgramFd> {
        let program = self.driver()?.fd()?.try_clone();
        program.context("cannot keep a program")
    }

    /// The program at TC's ingress.
    ///
    /// # Errors
    ///
    /// If it is not loaded.
    pub(super) fn at_tc(&mut self) -> Result<ProgramFd> {
        let program = self.agent.datapath_mut().program(Datapath::INGRESS)?;
        program.fd()?.try_clone().context("cannot keep a program")
    }

    /// Returns the number of packets under this counter.
    ///
    /// # Errors
    ///
    /// If that cannot be read.
    pub(super) fn count(&self, counter: Counter) -> Result<u64> {
        Ok(self.agent.datapath().counters().get(counter)?)
    }

    /// Makes sure that a packet of each flow is counted so by the program.
    ///
    /// # Errors
    ///
    /// If one is not, or the kernel does not run the program.
    pub(super) fn all_count(
        &self,
        feeder: &mut Feeder,
        plan: &Plan,
        fed: &Fed,
        counter: Counter,
    ) -> Result<()> {
        let before = self.count(counter)?;
        feeder.feed(plan, fed, plan.flows)?;
        let counted = self.count(counter)? - before;
        let flows = u64::from(plan.flows);
        ensure!(
            counted == flows,
            "of {flows} packets {counted} were counted as {counter:?}"
        );
        Ok(())
    }

    /// Forgets all connections: lets a time pass that is longer than any of them lasts.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to change them.
    pub(super) fn forget(&mut self) -> Result<()> {
        crate::packets::node::forget(&mut self.agent)
    }
}

/// The address of this number among those at the other end.
pub(super) fn nth(peer: Peer, number: u32) -> Ipv4Addr {
    match nth_of(Family::V4, peer, number) {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => unreachable!("an IPv4 address is none"),
    }
}

/// The same of this family.
pub(super) fn nth_of(family: Family, peer: Peer, number: u32) -> IpAddr {
    match crate::packets::node::peer(family, peer) {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + number).into(),
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + u128::from(number)).into(),
    }
}

/// The Resync of these services, at external IPs of this family and with their backends elsewhere.
fn resync(services: Services, family: Family) -> Value {
    let Services {
        count,
        backends,
        by_maglev,
        attached,
    } = services;
    let interfaces: &[&str] = if attached { &[UPLINK] } else { &[] };
    let service = |number: u32| {
        let backends: Vec<_> = (0..backends)
            .map(|place| nth_of(family, Peer::Backends, number + place * APART))
            .map(|ip| json!({"ip": ip, "port": BACKEND_PORT, "local": false}))
            .collect();
        let mut service = json!({
            "id": {"namespace": "bench", "name": format!("service-{number}")},
            "external_ips": [nth_of(family, Peer::Services, number)],
            "ports": {"tcp": {"protocol": "TCP", "port": SERVICE_PORT}},
            "backends": {"tcp": backends},
        });
        if by_maglev {
            service["selection"] = "maglev".into();
        }
        service
    };
    let services: Vec<_> = (0..count).map(service).collect();
    json!({
        "event": "Resync",
        "node_ips": [IpAddr::V4(NODE), IpAddr::V6(NODE_V6)],
        "services": services,
        "frontend_ifs": interfaces,
        "backend_ifs": [],
    })
}
