//! A new version of a service is rolled out while a client is at work: weights move, and connections with
//! them.

use std::{net::SocketAddr, time::Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use shunt_tests::{Continuous, Sample, Tally, Target, interrupt};

use crate::{
    changes::{can_lose_a_backend, held_frontend},
    cluster::Cluster,
    event::{EventLine, Protocol, Service},
    model::{Client, Frontend},
    progress::Progress,
    report::Report,
    steady::REQUEST,
};

/// The weights of the service and of its canary, in percent, one after the other.
const WEIGHTS: [[u32; 2]; 3] = [[100, 0], [90, 10], [0, 100]];

/// Limit of a share's deviation, in standard deviations: exceeded by chance once in 5 * 10^8 runs.
const DEVIATIONS: f64 = 6.0;

/// A service that keeps all endpoints but one, and its canary, which has that one.
struct RollOut {
    service: Service,
    canary: Service,
    port: String,
    /// Endpoint of the canary's connections.
    endpoint: SocketAddr,
}

/// Connections that began and ended between two changes.
struct Phase {
    weights: [u32; 2],
    begin: Instant,
    end: Instant,
}

/// Moves a service's connections to a canary, for so long at each step, and back at the end.
pub(crate) fn roll_out(
    progress: &Progress,
    cluster: &mut Cluster,
    pause: std::time::Duration,
    report: &mut Report,
) -> Result<()> {
    let found = cluster
        .model()
        .services()
        .find(|service| can_lose_a_backend(service))
        .cloned();
    let Some(before) = found else {
        progress.say("canary", "no service has two backends: nothing to roll out");
        return Ok(());
    };
    let frontend = held_frontend(cluster, &before).context("a service without a ClusterIP")?;
    let plan = RollOut::of(&before)?;
    let canary = EventLine::with_service("AddService", &plan.canary)?;
    cluster.apply(progress, &canary)?;
    cluster.apply(progress, &plan.event(WEIGHTS[0])?)?;

    let target = Target::new(frontend.transport, frontend.address);
    let pod = cluster.namespace(Client::Pod);
    let mut held = pod.enter(|| target.connect())?;
    let first = held.echo(REQUEST)?.backend;
    let traffic = Continuous::start(pod, target, REQUEST);
    let mut phases = Vec::new();
    for weights in WEIGHTS {
        cluster.apply(progress, &plan.event(weights)?)?;
        let begin = Instant::now();
        interrupt::pass(pause)?;
        let end = Instant::now();
        phases.push(Phase {
            weights,
            begin,
            end,
        });
        match held.echo(REQUEST) {
            Ok(answer) if answer.backend == first => {}
            other => report.problem(format!(
                "an open connection to {first} broke at {weights:?}: {other:?}"
            )),
        }
    }
    let samples = traffic.stop()?;
    for phase in phases {
        plan.judge(progress, &frontend, &phase, &samples, report);
    }

    let back = EventLine::with_service("UpdateService", &before)?;
    cluster.apply(progress, &back)?;
    let gone = json!({ "event": "DeleteService", "id": plan.canary.raw["id"] });
    cluster.apply(progress, &EventLine::parse(&gone.to_string())?)
}

impl RollOut {
    /// Of the service's first port over TCP.
    fn of(before: &Service) -> Result<Self> {
        let spec = &before.spec;
        let mut ports = spec.ports.iter();
        let (port, _) = ports
            .find(|(_, port)| port.protocol == Protocol::Tcp)
            .context("a service without a port over TCP")?;
        let mut service = before.raw.clone();
        let backends = service["backends"][port]
            .as_array_mut()
            .context("backends that are no list")?;
        let last = backends.pop().context("a port without backends")?;
        let own = spec.backends.get(port).and_then(|backends| backends.last());
        let endpoint = own.context("a port without backends")?;
        let mut canary = json!({
            "id": { "namespace": spec.id.namespace, "name": format!("{}-canary", spec.id.name) },
            "ports": { port: before.raw["ports"][port] },
            "backends": { port: [last] },
        });
        // A node port is one service's.
        canary["ports"][port]["node_port"] = 0.into();
        Ok(Self {
            port: port.clone(),
            endpoint: SocketAddr::new(endpoint.ip, endpoint.port),
            service: service.try_into()?,
            canary: canary.try_into()?,
        })
    }

    /// The event that sets these weights of the service and the canary.
    fn event(&self, [own, new]: [u32; 2]) -> Result<EventLine> {
        let Self {
            service,
            canary,
            port,
            endpoint: _,
        } = self;
        let number = &service.raw["ports"][port]["port"];
        let named = |of: &Service, weight: u32| -> Value {
            json!({ "service": of.raw["id"], "port": number, "weight": weight })
        };
        let backends = [named(service, own), named(canary, new)];
        let mut raw = service.raw.clone();
        raw["splits"] = json!({ port: { "mode": "strict", "backends": backends } });
        EventLine::with_service("UpdateService", &raw.try_into()?)
    }

    /// Reports the result of a phase, and whether that fits its weights.
    fn judge(
        &self,
        progress: &Progress,
        frontend: &Frontend,
        phase: &Phase,
        samples: &[Sample],
        report: &mut Report,
    ) {
        let Phase {
            weights: [own, new],
            begin,
            end,
        } = phase;
        let within = samples
            .iter()
            .filter(|sample| sample.started >= *begin && sample.ended <= *end);
        let mut tally = Tally::default();
        within.for_each(|sample| tally.add(&sample.outcome));
        report.check(Client::Pod, frontend, &tally);
        let number = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let (all, moved) = (number(tally.answered()), number(tally.of(self.endpoint)));
        let share = f64::from(*new) / f64::from(own + new);
        let measured = 100.0 * moved / all.max(1.0);
        let (service, canary) = (&self.service.spec.id, &self.canary.spec.id);
        progress.say(
            "canary",
            format_args!(
                "weights {own}:{new}: of {all} connections {:.1} % went to {service} and {measured:.1} % to \
                 {canary}",
                100.0 - measured
            ),
        );
        let deviation = (all * share * (1.0 - share)).sqrt();
        if (moved - all * share).abs() > DEVIATIONS * deviation {
            report.problem(format!(
                "{canary} has the weight {new} of {}, and got {moved} of {all} connections",
                own + new
            ));
        }
    }
}
