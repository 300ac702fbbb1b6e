//! A node: an agent with the real object in the kernel, attached to nothing.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use aya::programs::ProgramFd;
use serde_json::{Value, json};
use shunt_common::Counter;
use shunt_datapath::{
    Datapath, DatapathOptions, Families, FlowChoice, FlowReader, RejectLimit, TableSizes,
};
use shunt_model::{self, RenderOptions, Renderer};
use shunt_runtime::Agent;
use shunt_tests::passing;

use super::{
    opened::Programs,
    traffic::{Family, Peer},
};

/// The services' port, for TCP and UDP.
pub(crate) const SERVICE_PORT: u16 = 80;
/// The backends'.
pub(crate) const BACKEND_PORT: u16 = 8080;

/// Ranges of the clients.
pub(super) const POD_CIDRS: [&str; 2] = ["10.64.0.0/12", "fd00:64::/64"];

/// The ranges that services have their addresses from, if nodes know them.
pub(super) const SERVICE_CIDRS: [&str; 2] = ["10.96.0.0/11", "fd00:60::/27"];

/// The first client. All of them are pods of this node, so that no packet leaves it.
pub(crate) fn client(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 64, 1, 0).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0x64, 0, 0, 0, 0, 0, 0x100).into(),
    }
}

/// The first of those at the other end.
pub(crate) fn peer(family: Family, peer: Peer) -> IpAddr {
    let second = match peer {
        Peer::Services | Peer::OtherPort => 96,
        Peer::Backends => 128,
        Peer::Nobody => 112,
        Peer::Stranger => 160,
    };
    match family {
        Family::V4 => Ipv4Addr::new(10, second, 0, 1).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, second.into(), 0, 0, 0, 0, 0, 1).into(),
    }
}

/// Size of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Services with one backend each, of IPv4 unless there is only one.
    pub services: u32,
    /// Entries of the conntrack tables.
    pub conntrack: u32,
    pub families: Families,
}

/// An agent and its programs.
pub(super) struct Node {
    agent: Agent,
}

impl Node {
    /// A node of this size, and one more service, without backends.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it.
    pub(super) fn new(size: Size) -> Result<Self> {
        Self::with(size, |_| ())
    }

    /// Such a node with other options.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it.
    pub(super) fn with(size: Size, change: impl FnOnce(&mut DatapathOptions)) -> Result<Self> {
        let Size {
            services,
            conntrack,
            families,
        } = size;
        let mut options = DatapathOptions {
            pod_cidrs: vec![POD_CIDRS[0].parse()?, POD_CIDRS[1].parse()?],
            rejects: RejectLimit { rate: 0 },
            families,
            sizes: TableSizes {
                conntrack,
                frontends: services * 2 + 64,
                ..TableSizes::default()
            },
            ..DatapathOptions::default()
        };
        change(&mut options);
        let datapath = Datapath::load(&options).context("cannot load the datapath")?;
        let renderer = Renderer::new(RenderOptions::default());
        let mut node = Self {
            agent: Agent::new(renderer, datapath, BTreeSet::new()),
        };
        let event = shunt_model::decode(&resync(services, &[]))?;
        let outcome = node.agent.apply(event)?;
        ensure!(
            outcome.conflicts.is_empty(),
            "the services are in each other's way"
        );
        Ok(node)
    }

    /// Such a node that looks after all addresses of its services' ranges.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it.
    pub(super) fn guarded(size: Size) -> Result<Self> {
        let mut node = Self::with(size, |options| options.guard.guard = true)?;
        let ranges = json!({ "event": "UpdateServiceCidrs", "new": SERVICE_CIDRS });
        node.agent
            .apply(shunt_model::decode(&ranges.to_string())?)?;
        Ok(node)
    }

    /// The loaded programs of a node: their names, and the kernel's data on them.
    ///
    /// # Errors
    ///
    /// If the kernel reports nothing.
    pub(super) fn programs(&mut self) -> Result<Vec<(&'static str, aya::programs::ProgramInfo)>> {
        [Datapath::INGRESS, Datapath::EGRESS]
            .into_iter()
            .map(|name| Ok((name, self.agent.datapath_mut().program(name)?.info()?)))
            .collect()
    }

    /// Has the programs report these of connections and packets. They get their tables at this path.
    ///
    /// # Errors
    ///
    /// If the kernel does not take them.
    pub(super) fn watch(&mut self, at: &Path, choice: FlowChoice) -> Result<FlowReader> {
        let datapath = self.agent.datapath_mut();
        let loader = datapath.flow_loader().or_at(at.to_owned());
        let (programs, mut reader) = loader.load().context("programs that tell")?;
        reader.choose(choice);
        datapath.tell_flows(programs);
        Ok(reader)
    }

    /// Applies an event.
    ///
    /// # Errors
    ///
    /// If it is refused.
    pub(super) fn tell(&mut self, event: &Value) -> Result<()> {
        self.agent.apply(shunt_model::decode(&event.to_string())?)?;
        Ok(())
    }

    /// Forgets all connections: lets a time pass that is longer than any of them lasts.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to change them.
    pub(super) fn forget(&mut self) -> Result<()> {
        forget(&mut self.agent)
    }

    fn program(&mut self, name: &'static str) -> Result<ProgramFd> {
        let program = self.agent.datapath_mut().program(name)?;
        program.fd()?.try_clone().context("cannot keep a program")
    }
}

/// Has an agent's programs forget all connections: lets a time pass that is longer than any of them
/// lasts.
///
/// # Errors
///
/// If the kernel refuses to change them.
pub(crate) fn forget(agent: &mut Agent) -> Result<()> {
    let ebpf = agent.datapath_mut().ebpf_mut();
    passing::let_pass(|map| passing::of_object(ebpf, map), 100_000)?;
    let connections = agent.datapath().connections();
    ensure!(connections.is_empty()?, "connections stay");
    Ok(())
}

impl Programs for Node {
    fn ingress(&mut self) -> Result<ProgramFd> {
        self.program(Datapath::INGRESS)
    }

    fn egress(&mut self) -> Result<ProgramFd> {
        self.program(Datapath::EGRESS)
    }

    fn count(&self, counter: Counter) -> Result<u64> {
        Ok(self.agent.datapath().counters().get(counter)?)
    }
}

/// The Resync of so many services and one without backends, with clients behind these interfaces.
pub(super) fn resync(services: u32, interfaces: &[&str]) -> String {
    let families: &[Family] = if services == 1 {
        &[Family::V4, Family::V6]
    } else {
        &[Family::V4]
    };
    let service = |number: u32, of: Peer| {
        let at = |of| -> Vec<_> {
            let addresses = families.iter().map(|family| nth(peer(*family, of), number));
            addresses.collect()
        };
        let backends: Vec<_> = at(Peer::Backends)
            .into_iter()
            .filter(|_| of == Peer::Services)
            .map(|ip| json!({"ip": ip, "port": BACKEND_PORT, "local": true}))
            .collect();
        json!({
            "id": {"namespace": "bench", "name": format!("{of:?}-{number}").to_lowercase()},
            "cluster_ips": at(of),
            "ports": {
                "tcp": {"protocol": "TCP", "port": SERVICE_PORT},
                "udp": {"protocol": "UDP", "port": SERVICE_PORT},
            },
            "backends": {"tcp": backends, "udp": backends},
        })
    };
    let list: Vec<_> = (0..services)
        .map(|number| service(number, Peer::Services))
        .chain([service(0, Peer::Nobody)])
        .collect();
    json!({
        "event": "Resync",
        "node_ips": [],
        "services": list,
        "frontend_ifs": interfaces,
        "backend_ifs": [],
    })
    .to_string()
}

/// The address that is so many after this one.
pub(super) fn nth(address: IpAddr, number: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() + number).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() + u128::from(number)).into(),
    }
}
