//! The translator: Shunt, or kube-proxy's rules.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use shunt_tests::{
    Agent, Namespace, PinDir, addresses,
    rulesets::{iptables, nftables},
    run,
};

use crate::{
    cpu,
    field::{Family, Field},
    services::{self, Service},
};

/// Interfaces of the node that clients are behind.
const INTERFACES: [&str; 5] = ["eth0", "eth1", "pod-a", "pod-b", "pod-c"];

/// The translator under siege.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The agent of this binary, with these flags.
    Shunt {
        binary: PathBuf,
        flags: Vec<String>,
        /// True if its log is shown at the end.
        log: bool,
    },
    Nftables,
    Iptables,
}

impl Kind {
    /// Its name.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Shunt { .. } => "Shunt",
            Self::Nftables => "kube-proxy's nftables rules",
            Self::Iptables => "kube-proxy's iptables rules",
        }
    }
}

/// The translator on the node. Dropping it ends that.
pub(crate) struct Translator<'a> {
    kind: Kind,
    family: Family,
    node: &'a Namespace,
    services: Vec<Service>,
    /// Interfaces that came after the others.
    further: Vec<String>,
    agent: Option<Agent>,
    pins: PinDir,
    /// Ticks of the agents that are dead.
    ticks: u64,
    meters: Meters,
}

impl<'a> Translator<'a> {
    /// Starts it with these services.
    ///
    /// The agent ends with the thread that calls this.
    ///
    /// # Errors
    ///
    /// When the agent does not start, or the rules cannot be loaded.
    pub(crate) fn start(
        kind: Kind,
        field: &'a Field,
        family: Family,
        services: &[Service],
    ) -> Result<Self> {
        let mut translator = Self {
            kind,
            family,
            node: field.node(),
            services: services.to_vec(),
            further: Vec::new(),
            agent: None,
            pins: PinDir::new(),
            ticks: 0,
            meters: Meters::default(),
        };
        let rules: Vec<_> = services.iter().map(Service::rules).collect();
        match translator.kind {
            Kind::Shunt { .. } => translator.revive()?,
            Kind::Nftables => translator.nft(&nftables::load(&services::node(), &rules))?,
            Kind::Iptables => translator.iptables(&iptables::load(&services::node(), &rules))?,
        }
        Ok(translator)
    }

    /// Returns its name.
    pub(crate) const fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Replaces a service by one of the same name. Without an agent, the next one learns of it.
    ///
    /// # Errors
    ///
    /// When that is refused.
    pub(crate) fn change(&mut self, after: Service) -> Result<()> {
        let same = |service: &&mut Service| service.name() == after.name();
        let Some(service) = self.services.iter_mut().find(same) else {
            return Ok(());
        };
        let before = std::mem::replace(service, after);
        match self.kind {
            Kind::Shunt { .. } => {
                let service = after.json(self.family);
                self.tell(&json!({ "event": "UpdateService", "service": service }))
            }
            Kind::Nftables => self.nft(&nftables::change(
                &services::node(),
                &before.rules(),
                &after.rules(),
            )),
            Kind::Iptables => {
                let all: Vec<_> = self.services.iter().map(Service::rules).collect();
                let changed = [after.rules()];
                self.iptables(&iptables::change(&services::node(), &all, &changed))
            }
        }
    }

    /// Reports that the node has these interfaces, besides those that it had from the begin.
    ///
    /// # Errors
    ///
    /// When that is refused.
    pub(crate) fn interfaces(&mut self, further: Vec<String>) -> Result<()> {
        self.further = further;
        let new = self.all_interfaces();
        self.tell(&json!({ "event": "UpdateLocalFrontendIfs", "old": [], "new": new }))
    }

    /// Kills the agent; returns whether there was one.
    ///
    /// # Errors
    ///
    /// When it does not end.
    pub(crate) fn die(&mut self) -> Result<bool> {
        self.read_meters();
        let Some(agent) = self.agent.take() else {
            return Ok(false);
        };
        self.ticks += cpu::of_process(agent.pid());
        self.show_log(&agent);
        agent.kill().map(|_| true)
    }

    /// Starts an agent, where there should be one and is none.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub(crate) fn revive(&mut self) -> Result<()> {
        let Kind::Shunt { binary, flags, .. } = &self.kind else {
            return Ok(());
        };
        if self.agent.is_some() {
            return Ok(());
        }
        let cidrs = [
            "--pod-cidr",
            addresses::POD_CIDR,
            "--pod-cidr",
            addresses::POD_CIDR_V6,
        ];
        let flags: Vec<_> = cidrs
            .into_iter()
            .chain(flags.iter().map(String::as_str))
            .collect();
        let agent = Agent::start(binary, self.node, &self.pins, &flags)?;
        self.agent = Some(agent);
        let services = self
            .services
            .iter()
            .map(|service| service.json(self.family));
        let nodes = [addresses::NODE, addresses::NODE2];
        let nodes = [nodes, nodes.map(addresses::v6)].concat();
        self.tell(&json!({
            "event": "Resync",
            "node_ips": nodes,
            "services": services.collect::<Vec<_>>(),
            "frontend_ifs": self.all_interfaces(),
            "backend_ifs": [],
        }))
    }

    /// The ticks of a processor that agents have had.
    pub(crate) fn ticks(&self) -> u64 {
        let agent = self.agent.as_ref();
        self.ticks + agent.map_or(0, |agent| cpu::of_process(agent.pid()))
    }

    /// Returns its counts of connections given up and packets dropped, by its own names for them.
    pub(crate) fn counted(&mut self) -> BTreeMap<String, u64> {
        self.read_meters();
        if let Some(agent) = &self.agent {
            self.show_log(agent);
        }
        self.meters.sums()
    }

    fn tell(&mut self, event: &Value) -> Result<()> {
        match &mut self.agent {
            Some(agent) => agent.apply_all(&[event.to_string()]),
            None => Ok(()),
        }
    }

    fn all_interfaces(&self) -> Vec<&str> {
        let further = self.further.iter().map(String::as_str);
        INTERFACES.into_iter().chain(further).collect()
    }

    fn show_log(&self, agent: &Agent) {
        if matches!(self.kind, Kind::Shunt { log: true, .. }) {
            println!("the log of agent {}:\n{}\n", agent.pid(), agent.log());
        }
    }

    fn read_meters(&mut self) {
        let read = match (&self.kind, &self.agent) {
            (Kind::Shunt { binary, .. }, Some(agent)) => status(binary, agent.socket()),
            (Kind::Shunt { .. }, None) => return,
            _ => netfilter(self.node),
        };
        match read {
            Ok(read) => self.meters.add(read),
            Err(error) => eprintln!("siege: nothing is known of what was dropped: {error:#}"),
        }
    }

    fn nft(&self, rules: &str) -> Result<()> {
        let ran = self.node.run_with_input("nft", &["-f", "-"], rules);
        ran.map(drop).context("cannot load the rules")
    }

    fn iptables(&self, rules: &str) -> Result<()> {
        let restore = |tool| self.node.run_with_input(tool, &["--noflush"], rules);
        restore("iptables-legacy-restore")
            .or_else(|_| restore("iptables-restore"))
            .map(drop)
            .context("cannot load the rules")
    }
}

/// Counters of several agents one after the other, of which some begin at 0 with each.
#[derive(Debug, Default)]
struct Meters(BTreeMap<String, (u64, u64)>);

impl Meters {
    fn add(&mut self, read: BTreeMap<String, u64>) {
        for (name, value) in read {
            let (before, last) = self.0.entry(name).or_default();
            if value < *last {
                *before += *last;
            }
            *last = value;
        }
    }

    fn sums(&self) -> BTreeMap<String, u64> {
        let sums = self.0.iter();
        sums.map(|(name, (before, last))| (name.clone(), before + last))
            .filter(|(_, sum)| *sum > 0)
            .collect()
    }
}

/// Returns the counts of `shunt status`.
fn status(binary: &Path, socket: &Path) -> Result<BTreeMap<String, u64>> {
    let socket = socket.to_string_lossy();
    let text = run(
        &binary.to_string_lossy(),
        &["status", "-o", "json", "--socket", &socket],
    )?;
    let status: Value = serde_json::from_str(&text).context("the status is not JSON")?;
    let wanted = |name: &str| {
        ["drop", "reject", "early"]
            .iter()
            .any(|word| name.contains(word))
            || name == "connection"
    };
    let of = |value: &Value| -> Vec<(String, u64)> {
        let fields = value.as_object().into_iter().flatten();
        fields
            .filter_map(|(name, value)| Some((name.clone(), value.as_u64()?)))
            .filter(|(name, _)| wanted(name))
            .collect()
    };
    Ok([of(&status), of(&status["counters"])]
        .concat()
        .into_iter()
        .collect())
}

/// Returns the counts of the kernel's own connection tracking.
fn netfilter(node: &Namespace) -> Result<BTreeMap<String, u64>> {
    let path = "/proc/net/stat/nf_conntrack";
    let text = node
        .enter(|| fs::read_to_string(path))
        .with_context(|| format!("cannot read {path}"))?;
    let mut lines = text.lines();
    let names: Vec<_> = lines
        .next()
        .context("no header")?
        .split_whitespace()
        .collect();
    let mut sums = BTreeMap::new();
    // A line for each processor, in hexadecimal.
    for line in lines {
        for (name, value) in names.iter().zip(line.split_whitespace()) {
            if ["drop", "early_drop", "insert_failed", "clash_resolve"].contains(name) {
                let value = u64::from_str_radix(value, 16).unwrap_or(0);
                *sums.entry((*name).to_owned()).or_default() += value;
            }
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_go_on_with_the_next_agent() {
        let mut meters = Meters::default();
        for value in [3, 7, 2, 5] {
            meters.add(BTreeMap::from([("early".to_owned(), value)]));
        }
        assert_eq!(meters.sums(), BTreeMap::from([("early".to_owned(), 12)]));
    }
}
