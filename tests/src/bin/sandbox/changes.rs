//! Backends and services change while clients are at work.

mod held;
mod timeline;

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::Value;
use shunt_tests::{Continuous, Target, Transport, interrupt};

use self::{held::HeldConnections, timeline::Timeline};
use crate::{
    cluster::Cluster,
    event::{EventLine, Service},
    model::{Client, Frontend, Kind},
    progress::Progress,
    report::{Report, Row, Stage},
    steady::REQUEST,
};

/// A frontend that is gone may not answer; an answer would be there long before.
const SILENCE: Duration = Duration::from_millis(500);

/// Number of new connections that show that a service is back.
const SOME: u32 = 20;

/// Removes a backend of one service, raises another one's weight, brings all back, and deletes
/// another service and adds it again, all under traffic.
pub(crate) fn change_under_traffic(
    progress: &Progress,
    cluster: &mut Cluster,
    pause: Duration,
    report: &mut Report,
) -> Result<()> {
    let services: Vec<_> = cluster.model().services().cloned().collect();
    let suitable = services
        .iter()
        .filter(|service| can_lose_a_backend(service));
    let Some(service) = suitable.max_by_key(|service| backend_count(service)) else {
        progress.say("change", "no service has two backends: nothing to change");
        return Ok(());
    };
    let other = services
        .iter()
        .find(|other| other.spec.id != service.spec.id);

    let mut held = HeldConnections::open(cluster, service)?;
    progress.say(
        "change",
        format_args!("{held} stay open during all changes"),
    );
    let mut timeline = Timeline::start(cluster.model());
    let traffic = start_traffic(cluster, other);
    progress.say(
        "change",
        format_args!("{} clients keep connecting", traffic.len()),
    );

    let smaller = edited(service, |backends| drop(backends.remove(0)))?;
    let weighted = edited(service, |backends| backends[0]["weight"] = 5.into())?;
    for (what, changed) in [
        ("a backend leaves", &smaller),
        ("it is back, and has five times the weight", &weighted),
        ("all as it was", service),
    ] {
        interrupt::pass(pause)?;
        progress.say("change", format_args!("{}: {what}", service.spec.id));
        let event = EventLine::with_service("UpdateService", changed)?;
        timeline.apply(progress, cluster, &event)?;
        held.check(what, report);
    }
    if let Some(other) = other {
        interrupt::pass(pause)?;
        let frontends = frontends_of(cluster, other);
        progress.say("change", format_args!("{} is deleted", other.spec.id));
        let event = EventLine::parse(
            &serde_json::json!({ "event": "DeleteService", "id": other.raw["id"] }).to_string(),
        )?;
        timeline.apply(progress, cluster, &event)?;
        check_gone(cluster, &frontends, report);
        progress.say("change", format_args!("{} is back", other.spec.id));
        timeline.apply(
            progress,
            cluster,
            &EventLine::with_service("AddService", other)?,
        )?;
        check_back(cluster, &frontends, report);
        held.check("another service was deleted and added", report);
    }
    interrupt::pass(pause)?;

    for (client, frontend, traffic) in traffic {
        let samples = traffic.stop()?;
        let tally = timeline.judge(client, &frontend, &samples, report);
        progress.say(
            "change",
            format_args!(
                "{client} to {frontend}: {} answered meanwhile",
                tally.answered()
            ),
        );
        report.add(Row {
            stage: Stage::Changes,
            client,
            frontend,
            tally,
        });
    }
    Ok(())
}

/// Returns whether the service has a ClusterIP, a port over TCP, and two backends or more of each port.
pub(crate) fn can_lose_a_backend(service: &Service) -> bool {
    let over_tcp = |port: &str| {
        service
            .spec
            .ports
            .get(port)
            .is_some_and(|port| port.protocol == crate::event::Protocol::Tcp)
    };
    !service.spec.cluster_ips.is_empty()
        && service
            .spec
            .backends
            .iter()
            .all(|(_, backends)| backends.len() > 1)
        && service.spec.backends.keys().any(|port| over_tcp(port))
}

fn backend_count(service: &Service) -> usize {
    service
        .spec
        .backends
        .values()
        .map(Vec::len)
        .max()
        .unwrap_or_default()
}

/// A service whose backends, port by port, were changed.
fn edited(service: &Service, edit: impl Fn(&mut Vec<Value>)) -> Result<Service> {
    let mut raw = service.raw.clone();
    let ports = raw["backends"]
        .as_object_mut()
        .context("a service without backends")?;
    for backends in ports.values_mut() {
        edit(
            backends
                .as_array_mut()
                .context("backends that are no list")?,
        );
    }
    Ok(raw.try_into()?)
}

/// Starts a client of each port's ClusterIP in the pod, and of one external frontend of each port
/// outside, but for one service.
fn start_traffic(
    cluster: &Cluster,
    without: Option<&Service>,
) -> Vec<(Client, Frontend, Continuous)> {
    let mut busy = BTreeSet::new();
    let mut traffic = Vec::new();
    for client in cluster.clients() {
        for frontend in cluster.model().frontends(client) {
            let spared = without.is_some_and(|service| service.spec.id == frontend.service);
            let inside = client.is_here();
            if spared || inside != (frontend.kind == Kind::ClusterIp) {
                continue;
            }
            // One client may use one source port for two frontends at once, as they are different
            // addresses to it. Where both lead to one backend that would be one connection, so
            // only one frontend is asked from each client.
            let backends: Vec<_> = frontend.weights.keys().copied().collect();
            if !busy.insert((client.to_string(), frontend.transport, backends)) {
                continue;
            }
            let target = Target::new(frontend.transport, frontend.address);
            let continuous = Continuous::start(cluster.namespace(client), target, REQUEST);
            traffic.push((client, frontend, continuous));
        }
    }
    traffic
}

fn frontends_of(cluster: &Cluster, service: &Service) -> Vec<(Client, Frontend)> {
    let of = |client| {
        let all = cluster.model().frontends(client).into_iter();
        all.filter(|found| found.service == service.spec.id)
            .map(move |found| (client, found))
    };
    cluster.clients().flat_map(of).collect()
}

fn check_gone(cluster: &Cluster, frontends: &[(Client, Frontend)], report: &mut Report) {
    for (client, frontend) in frontends {
        let target = Target::new(frontend.transport, frontend.address).within(SILENCE);
        if let Ok(answer) = cluster.namespace(*client).enter(|| target.ask(REQUEST)) {
            let name = answer.name;
            report.problem(format!(
                "{name} answers at {frontend}, whose service was deleted"
            ));
        }
    }
}

fn check_back(cluster: &Cluster, frontends: &[(Client, Frontend)], report: &mut Report) {
    for (client, frontend) in frontends {
        let target = Target::new(frontend.transport, frontend.address);
        let tally = cluster
            .namespace(*client)
            .enter(|| target.ask_times(SOME, REQUEST));
        report.check(*client, frontend, &tally);
        report.check_shares(frontend, &tally);
    }
}

/// The ClusterIP over TCP at which a service's connections are held open.
pub(crate) fn held_frontend(cluster: &Cluster, service: &Service) -> Option<Frontend> {
    cluster
        .model()
        .frontends(Client::Pod)
        .into_iter()
        .find(|found| {
            found.service == service.spec.id
                && found.kind == Kind::ClusterIp
                && found.transport == Transport::Tcp
        })
}
