//! The sandbox with its servers, the agent, and the agent's events.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use shunt_tests::{
    Ack, Agent, Forward, Namespace, PinDir, Sandbox, SocketPath, addresses, duration_text,
    has_ipv6, interrupt, own_cgroup,
};

use crate::{
    event::{Event, EventLine, Service},
    model::{Client, Model},
    progress::Progress,
};

/// Everything that runs. Dropped in this order: the way to its page, the agent, what it has pinned, the namespaces.
#[derive(Debug)]
pub(crate) struct Cluster {
    binary: PathBuf,
    page: Option<Forward>,
    agent: Agent,
    _page_socket: SocketPath,
    /// True if processes of this node are clients.
    has_sockets: bool,
    _pins: PinDir,
    sandbox: Sandbox,
    model: Model,
    events: usize,
}

impl Cluster {
    /// Builds the sandbox, starts servers where the events have backends, starts the agent and
    /// sends it the events. Its page, if it is to have one, is at this port of 127.0.0.1.
    pub(crate) fn build(
        progress: &Progress,
        binary: &Path,
        events: &[EventLine],
        ui: Option<u16>,
    ) -> Result<Self> {
        progress.say(
            "sandbox",
            "this node with pod-a, pod-b and the client pod-c",
        );
        progress.say("sandbox", "a second node with pod-d, and a client outside");
        let mut sandbox = Sandbox::new()?;
        interrupt::check()?;
        for (pod, ports) in served(&sandbox, events) {
            let ports: Vec<_> = ports.into_iter().collect();
            progress.say(
                "server",
                format_args!("{pod} listens on TCP and UDP {ports:?}"),
            );
            sandbox.serve(&pod, &ports)?;
        }
        let pins = PinDir::new().with_mount();
        let mut flags = vec![OsString::from("--pod-cidr"), addresses::POD_CIDR.into()];
        if !has_ipv6() {
            progress.say("sandbox", "IPv4 alone, since IPv6 is off on this machine");
            flags.extend(["--ip-families".into(), "ipv4".into()]);
        }
        // Of this process, which is the node's where it is in the node's network namespace.
        let cgroup = own_cgroup();
        match &cgroup {
            Ok(path) => flags.extend([
                "--socket-lb".into(),
                "host".into(),
                "--cgroup".into(),
                path.into(),
            ]),
            Err(error) => progress.say("sockets", format_args!("left out: {error:#}")),
        }
        // The agent's network namespace has no way to here, but it has the same files.
        let page_socket = SocketPath::new();
        if ui.is_some() {
            let place = format!("unix:{}", page_socket.path().display());
            flags.extend(["--ui".into(), place.into()]);
            flags.push("--count-service-traffic".into());
        }
        let agent = Agent::start(binary, sandbox.node(), &pins, &flags)?;
        progress.say("agent", format_args!("ready, process {}", agent.pid()));
        let page = ui.map(|port| Forward::start(port, page_socket.path()));
        let page = page.transpose()?;
        if let Some(page) = &page {
            progress.say("page", format_args!("http://{}/", page.address()));
        }
        let mut cluster = Self {
            binary: binary.to_owned(),
            page,
            agent,
            _page_socket: page_socket,
            has_sockets: cgroup.is_ok(),
            _pins: pins,
            sandbox,
            model: Model::default(),
            events: 0,
        };
        for event in events {
            interrupt::check()?;
            cluster.apply(progress, event)?;
        }
        Ok(cluster)
    }

    /// Sends the agent one event and waits until it has taken effect.
    pub(crate) fn apply(&mut self, progress: &Progress, line: &EventLine) -> Result<()> {
        self.events += 1;
        match self.agent.apply(&line.text)? {
            Ack::Applied {
                event,
                added,
                changed,
                removed,
                took,
                writes: _,
            } => {
                let took = duration_text(took);
                let counts = format!("{added} added, {changed} changed, {removed} removed");
                progress.say("event", format_args!("{event}: {counts}, {took}"));
            }
            Ack::Refused(reason) => {
                bail!(
                    "event {}: {reason}\nthe agent's log:\n{}",
                    self.events,
                    self.agent.log()
                )
            }
        }
        self.model.apply(&line.event);
        Ok(())
    }

    /// The agent's binary.
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns the address of the agent's page, if it has one.
    pub(crate) fn page(&self) -> Option<SocketAddr> {
        self.page.as_ref().map(Forward::address)
    }

    pub(crate) const fn agent(&self) -> &Agent {
        &self.agent
    }

    pub(crate) const fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    pub(crate) const fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the clients.
    pub(crate) fn clients(&self) -> impl Iterator<Item = Client> + use<> {
        let has_sockets = self.has_sockets;
        [Client::Pod, Client::Node, Client::Outside]
            .into_iter()
            .filter(move |client| *client != Client::Node || has_sockets)
    }

    /// Returns the namespace that a client runs in.
    pub(crate) fn namespace(&self, client: Client) -> &Namespace {
        match client {
            Client::Pod => self.sandbox.pod("pod-c").namespace(),
            Client::Node => self.sandbox.node(),
            Client::Outside => self.sandbox.outside(),
        }
    }
}

/// The ports on which each pod has a backend in some event.
fn served(sandbox: &Sandbox, events: &[EventLine]) -> BTreeMap<String, BTreeSet<u16>> {
    let pods: BTreeMap<IpAddr, &str> = sandbox
        .pods()
        .map(|(name, pod)| (pod.address(), name))
        .collect();
    let mut served = BTreeMap::<String, BTreeSet<u16>>::new();
    for service in events.iter().flat_map(services) {
        for backend in service.spec.backends.values().flatten() {
            if let Some(&pod) = pods.get(&backend.ip) {
                served
                    .entry(pod.to_owned())
                    .or_default()
                    .insert(backend.port);
            }
        }
    }
    served
}

fn services(line: &EventLine) -> &[Service] {
    match &line.event {
        Event::Resync { services, .. } | Event::UpdateNodePortServices { services, .. } => services,
        Event::AddService { service } | Event::UpdateService { service } => {
            std::slice::from_ref(service)
        }
        Event::DeleteService { .. } | Event::Interfaces => &[],
    }
}
