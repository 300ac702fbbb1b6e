//! Metrics of the agent.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use shunt_runtime::{
    ByFamily, Contact, Figures, Health, Interfaces, IpFamily, Listeners, NoLocalEndpoints,
    OverrideCounts, SocketHooks, Uplinks,
};

use crate::{
    linkerd::meters::stream_meters,
    metrics::sample::{Samples, Series, flag, of, one},
};

/// The agent's reports, and its event loop's figures if it answers.
#[derive(Debug)]
pub(crate) struct AgentState {
    pub(crate) figures: Option<Figures>,
    pub(crate) health: Health,
    pub(crate) oldest_change: ByFamily<Duration>,
    pub(crate) sources: BTreeMap<&'static str, Contact>,
    pub(crate) listeners: Listeners,
}

impl Collector for AgentState {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self {
            figures,
            health,
            oldest_change,
            sources,
            listeners,
        } = self;
        let mut samples = Samples(encoder);
        let version = of(env!("CARGO_PKG_VERSION"), 1.0);
        samples.gauge(
            "shunt_build_info",
            "The agent's version",
            &["version"],
            [version],
        )?;
        samples.gauge(
            "shunt_event_loop_responsive",
            "Whether the event loop answered this scrape; the metrics that it alone knows are left \
             out if not",
            &[],
            one(flag(figures.is_some())),
        )?;
        of_health(&mut samples, health)?;
        samples.gauge(
            "shunt_oldest_change_seconds",
            "How long the oldest change has waited that is not applied yet, in a source or in the queue; 0: none \
             waits",
            &["ip_family"],
            IpFamily::ALL.map(|family| {
                of(family.name(), oldest_change.of(family).as_secs_f64())
            }),
        )?;
        of_sources(&mut samples, sources)?;
        let failing = listeners.values().filter(|state| state.problem.is_some());
        for (name, help, count) in [
            (
                "shunt_listeners",
                "Addresses where the agent answers over HTTP, health checks of services too",
                listeners.len(),
            ),
            (
                "shunt_listeners_failing",
                "Those of them that cannot be had and are tried again",
                failing.count(),
            ),
        ] {
            samples.gauge(name, help, &[], one(count as f64))?;
        }
        of_linkerd(&mut samples)?;
        figures
            .as_ref()
            .map_or(Ok(()), |figures| of_figures(&mut samples, figures))
    }
}

/// The streams of linkerd's API; without it there are none.
fn of_linkerd(samples: &mut Samples<'_>) -> fmt::Result {
    let all = stream_meters();
    samples.gauge(
        "shunt_linkerd_streams",
        "Streams of linkerd's API that clients follow",
        &["method"],
        all.map(|meters| of(meters.method, meters.opened() as f64)),
    )?;
    samples.counter(
        "shunt_linkerd_streams_started",
        "Streams of linkerd's API that have begun",
        &["method"],
        all.map(|meters| of(meters.method, meters.started())),
    )?;
    samples.counter(
        "shunt_linkerd_messages",
        "Messages in streams of linkerd's API",
        &["method"],
        all.map(|meters| of(meters.method, meters.messages())),
    )
}

fn of_health(samples: &mut Samples<'_>, health: &Health) -> fmt::Result {
    for (name, help, pending) in [
        (
            "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
            "Changes of endpoints that are not applied yet",
            health.pending.endpoints,
        ),
        (
            "kubeproxy_sync_proxy_rules_service_changes_pending",
            "Changes of services that are not applied yet",
            health.pending.services,
        ),
    ] {
        samples.gauge(name, help, &[], one(pending as f64))?;
    }
    samples.gauge(
        "shunt_services_refused",
        "Services whose last change had no effect, because of a full table, and is tried again",
        &[],
        one(health.pending.refused as f64),
    )?;
    let queued = health.queued.map_or(0, |(_, count)| count);
    samples.gauge(
        "shunt_events_queued",
        "Events that wait or are being applied",
        &[],
        one(queued as f64),
    )?;
    samples.gauge(
        "shunt_node_eligible",
        "Whether load balancers may send new connections to this node, as /healthz says",
        &[],
        one(flag(health.is_node_eligible())),
    )
}

fn of_sources(samples: &mut Samples<'_>, sources: &BTreeMap<&'static str, Contact>) -> fmt::Result {
    let each = |value: fn(&Contact) -> f64| {
        let sources = sources.iter();
        sources.map(move |(name, state)| of(*name, value(state)))
    };
    samples.gauge(
        "shunt_source_connected",
        "Whether a source of events hears from whom it listens to",
        &["source"],
        each(|state| flag(state.connected)),
    )?;
    samples.gauge(
        "shunt_source_since_timestamp_seconds",
        "Since when this is so",
        &["source"],
        each(|state| seconds(state.since)),
    )
}

fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// Decisions of an operator: those that hold, and one that is awaited.
fn of_operator(
    samples: &mut Samples<'_>,
    removal_held: Option<Duration>,
    overrides: OverrideCounts,
) -> fmt::Result {
    samples.gauge(
        "shunt_removal_held_seconds",
        "How long an event has waited for `shunt confirm` or `shunt discard`; 0: none waits",
        &[],
        one(removal_held.map_or(0.0, |held| held.as_secs_f64())),
    )?;
    let OverrideCounts {
        drain,
        drain_node,
        weight,
    } = overrides;
    let counts = [
        ("drain", drain),
        ("drain_node", drain_node),
        ("weight", weight),
    ];
    samples.gauge(
        "shunt_overrides",
        "Overrides by `shunt drain` and `shunt weight` that are in effect",
        &["kind"],
        counts.map(|(kind, count)| of(kind, count as f64)),
    )
}

fn of_figures(samples: &mut Samples<'_>, figures: &Figures) -> fmt::Result {
    let Figures {
        synced,
        held,
        removal_held,
        overrides,
        frontends,
        conflicts,
        no_local_endpoints,
        interfaces,
        uplinks,
        sockets,
        tables: _,
        sockets_cured,
    } = figures;
    for (name, help, value) in [
        (
            "shunt_synced",
            "Whether a Resync was applied since the agent's start",
            flag(*synced),
        ),
        (
            "shunt_events_held",
            "Events that are held until the first Resync",
            *held as f64,
        ),
        (
            "shunt_frontend_conflicts",
            "Frontends that a service waits for, because another has them",
            *conflicts as f64,
        ),
    ] {
        samples.gauge(name, help, &[], one(value))?;
    }
    of_operator(samples, *removal_held, *overrides)?;
    let family = |family: IpFamily| of(family.name(), *frontends.of(family) as f64);
    samples.gauge(
        "shunt_frontends",
        "Frontends that the events lead to",
        &["ip_family"],
        IpFamily::ALL.map(family),
    )?;
    samples.gauge(
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
        "Service ports of policy Local that have usable endpoints, but none on this node",
        &["ip_family", "traffic_policy"],
        IpFamily::ALL.into_iter().flat_map(|family| {
            let NoLocalEndpoints { internal, external } = *no_local_endpoints.of(family);
            let of_policy = move |policy: &'static str, count: usize| -> Series<f64> {
                (vec![family.name().into(), policy.into()], count as f64)
            };
            [
                of_policy("internal", internal),
                of_policy("external", external),
            ]
        }),
    )?;
    of_interfaces(samples, interfaces, uplinks)?;
    let SocketHooks {
        wanted,
        attached,
        at_root,
    } = *sockets;
    samples.gauge(
        "shunt_socket_hooks_wanted",
        "Whether connections are to be translated at the socket",
        &[],
        one(flag(wanted)),
    )?;
    samples.gauge(
        "shunt_socket_hooks_attached",
        "Hooks of the cgroup that have programs",
        &[],
        one(attached as f64),
    )?;
    samples.gauge(
        "shunt_socket_hooks_at_root",
        "Whether these programs are at the root of all cgroups, where they see every process",
        &[],
        one(flag(at_root)),
    )?;
    of_tables(samples, figures)?;
    samples.counter(
        "shunt_sockets_destroyed",
        "Sockets of the node's processes that were destroyed because their backend is gone",
        &["protocol"],
        [
            of("UDP", sockets_cured.destroyed_udp),
            of("TCP", sockets_cured.destroyed_tcp),
        ],
    )?;
    samples.counter(
        "shunt_sockets_moved",
        "Connected UDP sockets of the node's processes that were connected to a backend anew",
        &[],
        one(sockets_cured.moved_udp),
    )
}

fn of_interfaces(
    samples: &mut Samples<'_>,
    interfaces: &Interfaces,
    uplinks: &Uplinks,
) -> fmt::Result {
    let Interfaces {
        attached,
        attaching,
        loading,
        absent,
        failed,
    } = interfaces;
    let states = [
        ("attached", attached),
        ("attaching", attaching),
        ("loading", loading),
        ("absent", absent),
        ("failed", failed),
    ];
    samples.gauge(
        "shunt_interfaces",
        "Interfaces that are to have the programs, by what became of them",
        &["state"],
        states.map(|(state, count)| of(state, *count as f64)),
    )?;
    let Uplinks {
        native,
        generic,
        loading,
        absent,
        failed,
    } = uplinks;
    let states = [
        ("native", native),
        ("generic", generic),
        ("loading", loading),
        ("absent", absent),
        ("failed", failed),
    ];
    samples.gauge(
        "shunt_xdp_uplinks",
        "Interfaces that are to have the XDP program, by what became of them",
        &["state"],
        states.map(|(state, count)| of(state, *count as f64)),
    )
}

fn of_tables(samples: &mut Samples<'_>, figures: &Figures) -> fmt::Result {
    let entries = |value: fn(u32, u32) -> f64| {
        let tables = figures.tables.iter();
        tables.map(move |table| of(table.name, value(table.used, table.capacity)))
    };
    samples.gauge(
        "shunt_table_entries",
        "Entries of a table that are in use; connections are counted from time to time",
        &["table"],
        entries(|used, _| used.into()),
    )?;
    samples.gauge(
        "shunt_table_capacity",
        "Entries that a table has",
        &["table"],
        entries(|_, capacity| capacity.into()),
    )
}
