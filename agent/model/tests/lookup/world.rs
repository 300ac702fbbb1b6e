//! A renderer that is asked, and words for what it answers.

use std::{collections::BTreeSet, net::IpAddr, num::NonZeroU16};

use shunt_model::{
    Answer, EndpointView, Interest, Plan, Query, RenderOptions, Renderer, RendererEvent, Target,
    Who, decode,
};

/// A change that a renderer plans.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// An event.
    Event(RendererEvent),
    /// This host's addresses are these now.
    HostAddresses(BTreeSet<IpAddr>),
}

/// A renderer of the node 192.168.16.10.
pub(crate) struct World {
    pub(crate) renderer: Renderer,
}

impl World {
    pub(crate) fn new() -> Self {
        let own = "192.168.16.10".parse().unwrap();
        Self {
            renderer: Renderer::new(RenderOptions {
                node_ips: BTreeSet::from([own]),
                ..RenderOptions::default()
            }),
        }
    }

    /// A world that heard these lines.
    pub(crate) fn told(lines: &[&str]) -> Self {
        let mut world = Self::new();
        lines.iter().for_each(|line| world.tell(line));
        world
    }

    pub(crate) fn tell(&mut self, line: &str) {
        let event = decode(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        self.apply(Change::Event(event));
    }

    pub(crate) fn apply(&mut self, change: Change) {
        let plan = self.plan(change);
        self.renderer.commit(plan);
    }

    pub(crate) fn plan(&self, change: Change) -> Plan {
        match change {
            Change::Event(event) => self.renderer.plan(event),
            Change::HostAddresses(addresses) => self.renderer.plan_host_addresses(addresses),
        }
        .unwrap()
    }

    /// Applies a change, and returns whether it concerns those who follow the question.
    pub(crate) fn concerns(&mut self, change: Change, query: &Query) -> bool {
        let mut interest = Interest::default();
        interest.insert(query.clone());
        let plan = self.plan(change);
        let concerned = self.renderer.concerned(&plan, &interest);
        self.renderer.commit(plan);
        concerned.contains(query)
    }

    pub(crate) fn ask(&self, query: &str) -> Answer {
        self.renderer.lookup(&query.parse().unwrap())
    }

    /// Returns the owners of the address, a text each; those that wait, with a question mark.
    pub(crate) fn targets(&self, query: &str) -> Vec<String> {
        self.ask(query).targets.iter().map(target).collect()
    }

    /// Returns the endpoints behind it, a text each.
    pub(crate) fn endpoints(&self, query: &str) -> Vec<String> {
        self.ask(query).endpoints.iter().map(endpoint).collect()
    }

    /// Returns the services that have it as an endpoint, a text each.
    pub(crate) fn member_of(&self, query: &str) -> Vec<String> {
        let list = self.ask(query).member_of;
        let text = |service: &dyn std::fmt::Display, port: &str, state: &str| {
            format!("{service} {port} {state}")
        };
        list.iter()
            .map(|member| {
                let state = state(member.ready, member.serving, member.terminating);
                text(&member.service, &member.port_name, state)
            })
            .collect()
    }
}

pub(crate) fn target(target: &Target) -> String {
    let Target { kind, in_use, who } = target;
    let who = match who {
        Who::Service(service) => format!("{} {}", service.service, service.port_name),
        Who::HealthCheck { service, port } => format!("{service} {port}"),
        Who::Workload(workload) => format!("{}/{}", workload.id.namespace, workload.id.name),
        Who::Node { name, own } => {
            let own = if *own { " own" } else { "" };
            format!("{}{own}", name.as_deref().unwrap_or("-"))
        }
        Who::UndefinedPort { service, .. } => service.to_string(),
    };
    let waits = if *in_use { "" } else { "?" };
    format!("{} {who}{waits}", kind.name())
}

pub(crate) fn endpoint(endpoint: &EndpointView) -> String {
    let EndpointView {
        key,
        ready,
        serving,
        terminating,
        used,
        used_here,
        workload,
        ..
    } = endpoint;
    let state = state(*ready, *serving, *terminating);
    let here = if used == used_here {
        String::new()
    } else {
        format!("({})", used_here.name())
    };
    let runs = workload
        .as_ref()
        .map_or_else(String::new, |workload| format!(" {}", workload.id.name));
    let (port, used) = (key.frontend_port, used.name());
    format!("{port} {}:{} {state} {used}{here}{runs}", key.ip, key.port)
}

pub(crate) fn state(ready: bool, serving: bool, terminating: bool) -> &'static str {
    match (ready, serving, terminating) {
        (true, true, false) => "ready",
        (false, true, true) => "serving",
        (false, false, true) => "terminating",
        (false, _, false) => "not ready",
        other => panic!("{other:?} is no state"),
    }
}

/// A question about a service.
pub(crate) fn by_name(name: &str, port: Option<u16>) -> Query {
    let id = shunt_model::ServiceId::new("default", name);
    Query::service(id.into(), port.and_then(NonZeroU16::new), None)
}
