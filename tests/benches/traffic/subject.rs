//! A subject: two nodes, their pods and a client outside, with something on the node that
//! translates services, or nothing.

use std::{cell::RefCell, fmt, path::Path};

use anyhow::{Context as _, Result};
use shunt_tests::{
    Agent, Namespace, PinDir, Sandbox, addresses,
    rulesets::{iptables, nftables},
};

use super::services::{self, HOSTS, Place, SERVED};
use crate::load::{Served, SourcePorts};

/// Rules of a CNI that hide its pods' addresses from the world outside.
const MASQUERADE: &str = "\
table ip cni {
    chain postrouting {
        type nat hook postrouting priority srcnat; policy accept;
        ip saddr 10.1.0.0/16 ip daddr != 10.1.0.0/16 masquerade
    }
}
";

/// A translator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// Nothing: clients use the backends' addresses.
    Direct,
    Shunt,
    /// Shunt with `--redirect`.
    Redirect,
    Nftables,
    Iptables,
}

/// The parts of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) proxy: Proxy,
    /// Number of services besides those that are measured.
    pub(crate) others: usize,
    /// True if the node has the rule of a CNI that masquerades, and so tracks connections.
    pub(crate) masquerade: bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy = match self.proxy {
            Proxy::Direct => return f.write_str("direct"),
            Proxy::Shunt => "Shunt",
            Proxy::Redirect => "Shunt --redirect",
            Proxy::Nftables => "nftables",
            Proxy::Iptables => "iptables",
        };
        let services = match self.others {
            0 => "1",
            1_000 => "1,000",
            10_000 => "10,000",
            others => return write!(f, "{proxy}, {others}"),
        };
        write!(f, "{proxy}, {services}")
    }
}

/// A subject. Dropping it removes all of it, the agent first.
#[derive(Debug)]
pub(crate) struct Subject {
    kind: Kind,
    name: String,
    running: Option<(Agent, PinDir)>,
    served: [Served; 2],
    ports: RefCell<SourcePorts>,
    sandbox: Sandbox,
}

impl Subject {
    /// The namespaces with their servers' sockets. Nothing translates yet.
    ///
    /// # Errors
    ///
    /// When a namespace cannot be made.
    pub(crate) fn new(kind: Kind) -> Result<Self> {
        let sandbox = Sandbox::new()?;
        for client in [
            sandbox.pod("pod-c").namespace(),
            sandbox.outside(),
            sandbox.node(),
        ] {
            // Twice as many connections before a port comes again.
            client.set("net/ipv4/ip_local_port_range", "1024 65535")?;
            // What is sent ahead of its receiver stays in the CPU's caches: it is not the memory
            // that is measured. Elsewhere it may be four times as much.
            client.set("net/ipv4/tcp_wmem", "4096 16384 1048576")?;
        }
        let listen = |place: Place| {
            let (node, device) = match place {
                Place::Local => (sandbox.node(), place.pod()),
                Place::Remote => (sandbox.node2(), place.pod()),
            };
            let pod = sandbox.pod(place.pod()).namespace();
            for address in HOSTS.map(|host| place.address(host)) {
                pod.configure(&format!("address add {address}/32 dev eth0\n"))?;
                node.configure(&format!("route add {address}/32 dev {device}\n"))?;
            }
            Served::listen(pod, SERVED)
        };
        let [local, remote] = Place::ALL.map(listen);
        let served = [local?, remote?];
        if kind.masquerade {
            let arguments = ["-f", "-"];
            sandbox
                .node()
                .run_with_input("nft", &arguments, MASQUERADE)?;
        }
        Ok(Self {
            name: kind.to_string(),
            kind,
            running: None,
            served,
            ports: RefCell::new(SourcePorts::new()),
            sandbox,
        })
    }

    /// Returns the rules to load into the node before it can be measured.
    pub(crate) fn rules(&self) -> Option<Rules<'_>> {
        let tool = match self.kind.proxy {
            Proxy::Direct | Proxy::Shunt | Proxy::Redirect => return None,
            Proxy::Nftables => Tool::Nft,
            Proxy::Iptables => Tool::IptablesRestore,
        };
        Some(Rules {
            tool,
            others: self.kind.others,
            node: self.sandbox.node(),
        })
    }

    /// Starts the agent, if this subject has one, with further flags, and sends it the services.
    ///
    /// The agent ends with the thread that calls this.
    ///
    /// # Errors
    ///
    /// When it does not start, or refuses an event.
    pub(crate) fn start_agent(&mut self, binary: &Path, further: &[&str]) -> Result<()> {
        let mut flags = vec!["--pod-cidr", addresses::POD_CIDR];
        match self.kind.proxy {
            Proxy::Shunt => {}
            Proxy::Redirect => flags.push("--redirect"),
            Proxy::Direct | Proxy::Nftables | Proxy::Iptables => return Ok(()),
        }
        flags.extend(further);
        let pins = PinDir::new();
        let mut agent = Agent::start(binary, self.sandbox.node(), &pins, &flags)?;
        agent.apply_all(&[services::resync()])?;
        let services = services::services(self.kind.others);
        let events: Vec<_> = services.iter().map(services::add).collect();
        // Answers come in order, so that of the last one is enough to wait for.
        if let Some((last, before)) = events.split_last() {
            agent.send(before)?;
            agent.apply_all(&[last])?;
        }
        self.running = Some((agent, pins));
        Ok(())
    }

    /// Hands a further event to the agent, if there is one.
    ///
    /// # Errors
    ///
    /// When it refuses it.
    pub(crate) fn tell(&mut self, event: &str) -> Result<()> {
        match &mut self.running {
            Some((agent, _)) => agent.apply(event).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the directory of its agent's maps and programs, if it has one.
    pub(crate) fn pins(&self) -> Option<&PinDir> {
        self.running.as_ref().map(|(_, pins)| pins)
    }

    /// Returns its kind.
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns its name in reports.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The namespaces.
    pub(crate) const fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The servers of a place.
    pub(crate) const fn served(&self, place: Place) -> &Served {
        let [local, remote] = &self.served;
        match place {
            Place::Local => local,
            Place::Remote => remote,
        }
    }

    /// The source ports for new flows of all its clients.
    pub(crate) const fn ports(&self) -> &RefCell<SourcePorts> {
        &self.ports
    }
}

#[derive(Debug, Clone, Copy)]
enum Tool {
    Nft,
    IptablesRestore,
}

/// Rules that a node is to have.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    tool: Tool,
    others: usize,
    node: &'a Namespace,
}

impl Rules<'_> {
    /// Returns the number of services that they are for, about.
    pub(crate) const fn size(&self) -> usize {
        self.others
    }

    /// Loads them, which may take minutes.
    ///
    /// # Errors
    ///
    /// When the tool is not there or does not take them.
    pub(crate) fn load(&self) -> Result<()> {
        let Self { tool, others, node } = self;
        let services = services::services(*others);
        let loaded = match tool {
            Tool::Nft => {
                let rules = nftables::load(&services::node(), &services);
                node.run_with_input("nft", &["-f", "-"], &rules)
            }
            Tool::IptablesRestore => {
                let rules = iptables::load(&services::node(), &services);
                let restore = |tool| node.run_with_input(tool, &["--noflush"], &rules);
                // That of nftables compares each chain of its input with all others by name: 1,000
                // services take it many seconds, and 10,000 most of an hour.
                restore("iptables-legacy-restore").or_else(|error| {
                    if *others > 1_000 {
                        return Err(error.context("--quick does without so many services"));
                    }
                    restore("iptables-restore")
                })
            }
        };
        loaded
            .map(drop)
            .with_context(|| format!("cannot load the rules of {others} services"))
    }
}
