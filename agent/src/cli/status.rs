//! `shunt status`: how the agent is.

mod interfaces;

use std::{
    io::{self, BufWriter, StdoutLock, Write},
    process::ExitCode,
};

use anyhow::Result;
use clap::Args;
use shunt_api::{
    proto::StatusRequest,
    view::{
        Conflict, Federation, FrontendDifference, HeldRemoval, Listener, LiveOverride, LocalApi,
        MaglevTables, MonitorUse, SocketLb, Source, SourceNode, StaleSockets, Status, TableUse,
        TakeOver, Unlocated, UnreadableObject, Untranslated,
    },
};
use shunt_print::{
    elapsed::duration,
    output::{self, OutputFormat},
    table::Table,
};

use crate::cli::{
    client::{inspection, refused, understood, with_agent},
    consul_lines,
    flags::paths::SocketArgs,
    status::interfaces::{interfaces, uplinks},
    watch::WatchArgs,
};

/// So many conflicts and differences are enough for a person.
const SHOWN: usize = 20;

/// Note on a service port without one.
const NO_MAGLEV_TABLE: &str = "its Maglev table does not fit: it selects at random (--max-slots)";

/// Note on a backend of a service in mode dsr without a node.
const UNLOCATED: &str = "its node is unknown: packets for it go on by SNAT";

/// Show how the agent is: events, interfaces, conflicts, tables, counters
///
/// Exit status: 0; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    watch: WatchArgs,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Queries the agent and prints.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode> {
    let StatusArgs {
        watch,
        output,
        socket: SocketArgs { socket },
    } = args;
    with_agent(socket, async |channel| {
        watch
            .follow(matches!(output, OutputFormat::Table), async || {
                let response = inspection(channel.clone())
                    .status(StatusRequest { brief: false })
                    .await
                    .map_err(|status| refused(&status))?;
                let status: Status = understood(response.into_inner().try_into())?;
                Ok((
                    move |out: &mut BufWriter<StdoutLock<'static>>| match output {
                        OutputFormat::Json => output::write_json(&status, out),
                        OutputFormat::Table => write_status(&status, out),
                    },
                    ExitCode::SUCCESS,
                ))
            })
            .await
    })
}

fn write_status(status: &Status, output: &mut impl Write) -> io::Result<()> {
    write!(output, "{}", summary(status))?;
    section(output, &interfaces(status))?;
    section(output, &uplinks(status))?;

    let mut conflicts = Table::new(["CONFLICT", "HELD BY", "WAITING"]);
    for conflict in status.conflicts.iter().take(SHOWN) {
        let Conflict {
            frontend,
            holder,
            waiting,
        } = conflict;
        conflicts.push([frontend.to_string(), holder.clone(), waiting.clone()]);
    }
    section(output, &conflicts)?;
    more(output, status.conflicts.len(), "conflicts")?;

    write_left_out(status, output)?;

    if let Some(consul) = &status.consul {
        section(output, &consul_lines::stale(consul, duration))?;
        more(output, consul.stale.len(), "queries")?;
        section(output, &consul_lines::skipped(consul))?;
        more(output, consul.skipped.len(), "services")?;
    }
    write_gateways(status, output)?;

    let mut differences = Table::new(["FRONTEND", "DIFFERENCE"]);
    for difference in status.differences.iter().take(SHOWN) {
        let FrontendDifference {
            frontend,
            difference,
        } = difference;
        differences.push([frontend.to_string(), difference.to_string()]);
    }
    section(output, &differences)?;
    more(output, status.differences.len(), "differences")?;

    let mut listeners = Table::new(["HTTP", "ADDRESS", "PROBLEM"]);
    for listener in &status.listeners {
        let Listener {
            name,
            address,
            problem,
        } = listener;
        let problem = problem.as_deref().unwrap_or_default();
        listeners.push([name.clone(), address.clone(), problem.to_owned()]);
    }
    section(output, &listeners)?;

    let mut overrides = Table::new(["OVERRIDE", "ENDPOINTS", "ENDS IN"]);
    for live in &status.overrides {
        let LiveOverride {
            change,
            ends_in_seconds,
            endpoints,
        } = live;
        let end = ends_in_seconds.map_or_else(|| "-".to_owned(), duration);
        overrides.push([change.to_string(), endpoints.to_string(), end]);
    }
    section(output, &overrides)?;

    let mut tables = Table::new(["TABLE", "USED", "RETIRED", "CAPACITY"]);
    for table in &status.tables {
        let TableUse {
            name,
            used,
            retired,
            capacity,
        } = table;
        let [used, retired, capacity] = [used, retired, capacity].map(u64::to_string);
        tables.push([name.clone(), used, retired, capacity]);
    }
    section(output, &tables)?;

    let mut unlocated = Table::new(["SERVICE", "BACKEND", "PROBLEM"]);
    for Unlocated { service, address } in status.unlocated.iter().take(SHOWN) {
        let address = address.to_string();
        unlocated.push([service.clone(), address, UNLOCATED.to_owned()]);
    }
    section(output, &unlocated)?;
    more(output, status.unlocated.len(), "backends")?;

    let MaglevTables { without_room, .. } = &status.maglev;
    let mut small = Table::new(["SERVICE PORT", "PROBLEM"]);
    for port in without_room.iter().take(SHOWN) {
        small.push([port.clone(), NO_MAGLEV_TABLE.to_owned()]);
    }
    section(output, &small)?;
    more(output, without_room.len(), "service ports")?;

    let mut counters = Table::new(["COUNTER", "PACKETS"]);
    for (name, packets) in &status.counters {
        counters.push([name.clone(), packets.to_string()]);
    }
    section(output, &counters)
}

/// Writes what sources have and the datapath does not.
fn write_left_out(status: &Status, output: &mut impl Write) -> io::Result<()> {
    let of_source = status.source.iter().map(|source| &source.untranslated);
    let of_local = status.local_api.iter().map(|local| &local.untranslated);
    for untranslated in of_source.chain(of_local) {
        let mut left_out = Table::new(["SERVICE", "NOT TRANSLATED"]);
        for Untranslated { service, reasons } in untranslated.iter().take(SHOWN) {
            for reason in reasons {
                left_out.push([service.clone(), reason.clone()]);
            }
        }
        section(output, &left_out)?;
        more(output, untranslated.len(), "services")?;
    }

    if let Some(source) = &status.source {
        let mut unreadable = Table::new(["OBJECT", "CANNOT BE READ"]);
        for UnreadableObject { object, reason } in &source.first_unreadable {
            unreadable.push([object.clone(), reason.clone()]);
        }
        section(output, &unreadable)?;
        let shown = source.first_unreadable.len() as u64;
        if source.unreadable > shown {
            writeln!(output, "and {} more objects", source.unreadable - shown)?;
        }
    }
    Ok(())
}

/// Writes the services that other datacenters serve, and the gateways to them.
fn write_gateways(status: &Status, output: &mut impl Write) -> io::Result<()> {
    let of_consul = status
        .consul
        .iter()
        .map(|it| (&it.failed_over, &it.gateways));
    let federation = status
        .local_api
        .iter()
        .filter_map(|it| it.federation.as_ref());
    let of_federation = federation.map(|it| (&it.failed_over, &it.gateways));
    for (failed_over, gateways) in of_consul.chain(of_federation) {
        section(output, &consul_lines::failed_over(failed_over))?;
        more(output, failed_over.len(), "services")?;
        section(output, &consul_lines::gateways(gateways))?;
        more(output, gateways.len(), "gateways")?;
    }
    Ok(())
}

/// Returns the facts of one line each.
fn summary(status: &Status) -> Table<2> {
    let addresses = status.node_ips.iter().map(|ip| {
        if status.own_node_ips.contains(ip) {
            format!("{ip} (own)")
        } else {
            ip.to_string()
        }
    });
    let addresses: Vec<String> = addresses.collect();
    let synced = match (status.synced, status.held) {
        (true, _) => "yes".to_owned(),
        (false, held) => format!("no: {held} events are held until the first Resync"),
    };
    let last_error = status.last_error.as_ref().map_or_else(
        || "-".to_owned(),
        |error| format!("{} ago: {}", duration(error.seconds_ago), error.text),
    );
    let pin_dir = status.pin_dir.as_deref().unwrap_or("- (nothing is pinned)");
    let events = format!("{} applied, {} refused", status.applied, status.refused);
    let lines = [
        ("version:", status.version.clone()),
        ("uptime:", duration(status.uptime_seconds)),
        ("pin dir:", pin_dir.to_owned()),
        ("synced:", synced),
        ("events:", events),
        ("last error:", last_error),
        ("node IPs:", addresses.join(", ")),
        (
            "untranslated:",
            format!("{} frontends", status.untranslated),
        ),
        (
            "early drop:",
            format!("{} connections", status.conntrack_early_drop),
        ),
        ("socket LB:", socket_lb(&status.socket_lb)),
        ("stale sockets:", stale_sockets(&status.stale_sockets)),
        ("monitor:", monitor(status.monitor)),
    ];
    let recreated = status.socket_recreated;
    let recreated = (recreated > 0).then(|| {
        let text = format!("its file was removed by somebody and made anew {recreated} times");
        ("socket:", text)
    });
    let host = status.host.iter().map(|text| ("HOST:", text.clone()));
    let removal = status
        .held_removal
        .iter()
        .map(|held| ("HELD:", held_removal(held)));
    let taken = status
        .take_over
        .iter()
        .map(|it| ("take-over:", take_over(it)));
    let followed = status.source.iter().flat_map(source_lines);
    let registered = status.local_api.iter().flat_map(local_lines);
    let followed = followed.chain(registered);
    let consul = status.consul.iter();
    let consul = consul.flat_map(|consul| consul_lines::lines(consul, duration));
    let mut table = Table::without_headings();
    let lines = lines
        .into_iter()
        .chain(recreated)
        .chain(host)
        .chain(removal);
    for (name, value) in lines.chain(taken).chain(followed).chain(consul) {
        table.push([name.to_owned(), value]);
    }
    table
}

/// An event that waits for a decision.
fn held_removal(held: &HeldRemoval) -> String {
    let HeldRemoval {
        number,
        event,
        removed,
        frontends,
        waiting,
        seconds,
    } = held;
    let since = duration(*seconds);
    format!(
        "{event} would remove {removed} of {frontends} frontends: for {since} it waits for `shunt confirm \
         {number}` or `shunt discard {number}`, and {waiting} events behind it"
    )
}

/// The source that follows a cluster.
fn source_lines(source: &Source) -> [(&'static str, String); 4] {
    let Source {
        name,
        connected,
        since_seconds_ago,
        trouble,
        synced,
        last_event_seconds_ago,
        services,
        endpoint_slices,
        endpoints,
        pending,
        lag_milliseconds,
        node,
        ..
    } = source;
    let since = duration(*since_seconds_ago);
    let link = match (connected, trouble) {
        (true, _) => format!("up to date for {since}"),
        (false, Some(trouble)) => format!("NOT up to date for {since}: {trouble}"),
        (false, None) if *synced => format!("NOT up to date for {since}"),
        (false, None) => "listing what there is".to_owned(),
    };
    let last = last_event_seconds_ago.map_or_else(String::new, |seconds| {
        format!(", last told of a change {} ago", duration(seconds))
    });
    let lag = match (pending, lag_milliseconds) {
        (0, _) => "none".to_owned(),
        (pending, Some(lag)) => format!("{pending} services, the oldest for {lag} ms"),
        (pending, None) => format!("{pending} services, whose last change failed"),
    };
    let SourceNode {
        name: node_name,
        found,
        zone,
        addresses,
    } = node;
    let node = if *found {
        let zone = zone.as_deref().unwrap_or("-");
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("{node_name}, zone {zone}, {}", addresses.join(", "))
    } else {
        format!("{node_name}: NOT a node of the cluster")
    };
    [
        ("source:", format!("{name}: {link}{last}")),
        (
            "objects:",
            format!("{services} Services, {endpoint_slices} EndpointSlices, {endpoints} endpoints"),
        ),
        ("pending:", lag),
        ("node:", node),
    ]
}

/// Returns the lines of services that are registered with the agent itself.
fn local_lines(local: &LocalApi) -> Vec<(&'static str, String)> {
    let LocalApi {
        address,
        services,
        passing,
        warning,
        critical,
        waiting,
        state,
        writes,
        failed_writes,
        troubles,
        frontends,
        pending,
        untranslated: _,
        federation,
    } = local;
    let checks = format!("{passing} passing, {warning} warning, {critical} critical");
    let mut lines = vec![
        (
            "local API:",
            format!("{address}: {services} services; checks: {checks}; {waiting} clients wait"),
        ),
        (
            "local state:",
            format!("{state}: written {writes} times, failed {failed_writes} times"),
        ),
    ];
    if *frontends > 0 {
        let shown = format!("{frontends}, of which {pending} are not up to date");
        lines.push(("local frontends:", shown));
    }
    lines.extend(federation.iter().map(|it| ("federation:", federated(it))));
    lines.extend(
        troubles
            .iter()
            .map(|trouble| ("local trouble:", trouble.clone())),
    );
    lines
}

/// Returns the state of the federation, which needs no Consul.
fn federated(federation: &Federation) -> String {
    let Federation {
        datacenter,
        primary,
        up_to_date,
        since_seconds_ago,
        trouble,
        ..
    } = federation;
    let role = if datacenter == primary {
        "the primary".to_owned()
    } else {
        format!("primary {primary}")
    };
    let since = duration(*since_seconds_ago);
    let state = match (up_to_date, trouble) {
        (true, _) => format!("up to date for {since}"),
        (false, Some(trouble)) => format!("NOT up to date for {since}: {trouble}"),
        (false, None) => "reading what there is".to_owned(),
    };
    format!("datacenter {datacenter}, {role}: {state}")
}

/// Returns the mode of translation at the socket, the cgroup, and the hooks.
fn socket_lb(sockets: &SocketLb) -> String {
    let SocketLb {
        mode,
        cgroup,
        root,
        hooks,
        problem,
    } = sockets;
    let mode = mode.name();
    if let Some(problem) = problem {
        return format!("{mode}, but nothing is attached: {problem}");
    }
    let Some(cgroup) = cgroup else {
        return mode.to_owned();
    };
    let whose = if *root {
        "the root of all cgroups"
    } else {
        "NOT the root: processes outside it are no clients"
    };
    let hooks = hooks.join(", ");
    format!("{mode}, at {cgroup} ({whose}): {hooks}")
}

fn stale_sockets(sockets: &StaleSockets) -> String {
    let StaleSockets {
        destroyed_udp,
        destroyed_tcp,
        moved_udp,
        trouble,
    } = sockets;
    let cured = format!(
        "{destroyed_udp} of UDP and {destroyed_tcp} of TCP destroyed, {moved_udp} of UDP connected anew"
    );
    match trouble {
        Some(trouble) => format!("{cured}; now they stay: {trouble}"),
        None => cured,
    }
}

/// Returns the number of watchers, and of the events that they received or lost.
fn monitor(monitor: MonitorUse) -> String {
    let MonitorUse {
        watchers,
        told,
        lost,
    } = monitor;
    format!("{watchers} watch; {told} events were told, {lost} lost")
}

/// Returns whether the agent takes over from kube-proxy, and what is left of that.
fn take_over(take_over: &TakeOver) -> String {
    let TakeOver {
        active,
        mode: _,
        reason,
        rules,
        connections,
    } = take_over;
    let state = if *active { "on" } else { "off" };
    let rules = rules.as_ref().map_or_else(
        || "no rules of kube-proxy".to_owned(),
        |rules| format!("rules of kube-proxy: {rules}"),
    );
    let connections = connections.map_or_else(String::new, |count| {
        format!("; netfilter translates {count} connections")
    });
    format!("{state} ({reason}); {rules}{connections}")
}

/// A table with an empty line before it, if it has any row.
fn section<const N: usize>(output: &mut impl Write, table: &Table<N>) -> io::Result<()> {
    if table.is_empty() {
        return Ok(());
    }
    write!(output, "\n{table}")
}

fn more(output: &mut impl Write, there: usize, what: &str) -> io::Result<()> {
    if there > SHOWN {
        writeln!(output, "and {} more {what}", there - SHOWN)?;
    }
    Ok(())
}
