//! `shunt agent`: events in, translation in the kernel, until a signal.

use std::{
    io::{self, IsTerminal as _},
    net::IpAddr,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use ipnet::IpNet;
use shunt::{
    Agent, Controller, HostNeeds, HostSettings, Request,
    server::{Server, Socket},
    source::{self, Input},
};
use shunt_datapath::{
    Collector, Datapath, DatapathOptions, LinkWatch, PacketLog, RejectLimit, cleanup,
};
use shunt_model::{RenderOptions, Renderer};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::sleep,
};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use crate::commands::{
    addresses::Addresses,
    options::{FamilyArgs, NodeArgs, PinArgs, SnatArgs, SocketArgs},
    tables::{ConntrackArgs, SizeArgs},
};

/// How long no event must come before what was replaced is freed, which takes milliseconds.
const IDLE: Duration = Duration::from_millis(100);

/// How many requests wait for the loop before those who ask do.
const AHEAD: usize = 16;

/// Translate services in the kernel, as events describe them
///
/// Runs until SIGINT or SIGTERM. Translation goes on without it, as it last was, until the next
/// agent takes over or `shunt cleanup` ends it. Needs root, or CAP_BPF and CAP_NET_ADMIN. RUST_LOG sets what is logged (default: info).
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Events besides those of the socket, one JSON object a line; - follows standard input
    #[arg(long, value_name = "FILE")]
    events: Option<Input>,

    #[command(flatten)]
    socket: SocketArgs,

    /// An interface where clients are, besides those of the events; may be given several times
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,

    #[command(flatten)]
    node: NodeArgs,

    /// The address that a pod sees when it reaches itself through its service; nobody else may
    /// have it. Once for each family [default: 169.254.254.1 and fd9a:7452:4a6d::1]
    #[arg(long = "hairpin-ip", value_name = "IP")]
    hairpin_ips: Vec<IpAddr>,

    #[command(flatten)]
    snat: SnatArgs,

    /// How many packets a second are rejected with an ICMP error, where nothing serves them; 0: any
    /// number. A twentieth of it may come at once; beyond that they are dropped
    #[arg(long, value_name = "N", default_value_t = RejectLimit::default().rate)]
    reject_rate: u32,

    /// Hand packets to pods of this node straight to the pod's device, and its replies on, past
    /// the host's stack. The host's netfilter rules do not see these packets. Needs --pod-cidr
    #[arg(long, requires = "pod_cidrs")]
    redirect: bool,

    #[command(flatten)]
    families: FamilyArgs,

    /// What the kernel programs log of packets
    #[arg(long, value_enum, default_value_t)]
    packet_log: PacketLog,

    #[command(flatten)]
    sizes: SizeArgs,

    #[command(flatten)]
    conntrack: ConntrackArgs,

    #[command(flatten)]
    pins: PinArgs,

    /// Pin nothing: translation ends with the agent
    #[arg(long, conflicts_with = "pin_dir")]
    no_pin: bool,
}

/// Runs until a signal comes.
///
/// # Errors
///
/// The events cannot be opened, or the kernel does not take the programs.
pub(crate) fn run(args: AgentArgs) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        let default = match args.packet_log {
            PacketLog::Off => "info",
            PacketLog::Debug => "info,shunt_ebpf=debug",
        };
        EnvFilter::new(default)
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(serve(args))
}

async fn serve(args: AgentArgs) -> anyhow::Result<ExitCode> {
    let AgentArgs {
        events,
        socket: SocketArgs { socket },
        interfaces,
        node,
        hairpin_ips,
        snat,
        reject_rate,
        redirect,
        families,
        packet_log,
        sizes,
        conntrack,
        pins: PinArgs { pin_dir },
        no_pin,
    } = args;
    let pin_dir = (!no_pin).then_some(pin_dir);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let reader = match &events {
        None => None,
        Some(events) => Some(
            events
                .open()
                .with_context(|| format!("cannot open the events in {events}"))?,
        ),
    };
    // Before anything is touched: another agent may be at work here.
    let listener = Socket::listen(&socket)?;
    let families = families.families();
    let render_options = node.render_options()?;
    let settings = HostSettings::read();
    let needs = HostNeeds {
        snat_ports: snat.snat_ports,
        pod_cidrs: &node.pod_cidrs,
        ipv4: families.ipv4,
        ipv6: families.ipv6 && uses_ipv6(&render_options, &node.pod_cidrs),
    };
    for complaint in settings.complaints(&needs) {
        warn!("{complaint}");
    }
    let renderer = Renderer::new(render_options);
    let defaults = DatapathOptions::default();
    let hairpin = Addresses::of("--hairpin-ip", &hairpin_ips)?;
    let snat_from = Addresses::of("--snat-ip", &snat.snat_ips)?;
    let mut datapath = Datapath::load(&DatapathOptions {
        pod_cidrs: node.pod_cidrs,
        hairpin_v4: hairpin.v4.unwrap_or(defaults.hairpin_v4),
        hairpin_v6: hairpin.v6.unwrap_or(defaults.hairpin_v6),
        snat_v4: snat_from.v4,
        snat_v6: snat_from.v6,
        snat_ports: snat.snat_ports,
        rejects: RejectLimit { rate: reject_rate },
        redirect,
        families,
        packet_log,
        sizes: sizes.table_sizes(),
        pin_dir: pin_dir.clone(),
    })
    .context("cannot set up the datapath")?;
    let _packet_log = match packet_log {
        PacketLog::Off => None,
        PacketLog::Debug => Some(datapath.forward_packet_log()?),
    };
    let collector = datapath
        .take_conntrack()
        .map(|table| {
            let counters = Arc::clone(datapath.counters());
            Collector::start(table, counters, conntrack.timeouts(), conntrack.interval())
        })
        .transpose()
        .context("cannot start the collector of connections")?;
    // The watch begins before the first look at the interfaces, so that none is missed.
    let mut links = LinkWatch::start().context("cannot watch the interfaces")?;
    let connections = datapath.connections();
    let agent = Agent::new(renderer, datapath, interfaces.into_iter().collect());
    let mut controller = Controller::new(agent, pin_dir.clone());
    let (queue, mut requests) = mpsc::channel(AHEAD);
    if let Some(reader) = reader {
        let queue = queue.clone();
        source::feed(reader, move |line| {
            queue.blocking_send(Request::Line(line)).is_ok()
        })
        .context("cannot start reading events")?;
    }
    let server = Server::start(listener, queue, connections).context("cannot serve the socket")?;
    let from = events.map(|events| format!("reading events from {events}, "));
    info!(
        "ready: {}listening at {}",
        from.unwrap_or_default(),
        socket.display()
    );

    loop {
        tokio::select! {
            Some(request) = requests.recv() => controller.handle(request),
            () = links.changed() => controller.agent_mut().reconcile_interfaces(),
            () = sleep(IDLE), if controller.has_to_tidy() => controller.tidy(),
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    drop(server);
    let agent = controller.into_agent();
    info!("stopping: {}", totals(&agent));
    let idle = match collector.and_then(Collector::stop) {
        Some(conntrack) => agent.datapath().is_empty()? && conntrack.is_empty()?,
        None => false,
    };
    drop(agent);
    if let (Some(pin_dir), true) = (pin_dir, idle) {
        // There is nothing to keep up: no service, no connection.
        cleanup(&pin_dir)?;
        info!("nothing is translated: nothing stays pinned");
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether there is IPv6 here besides what every interface has of it: an address that can reach
/// other links, or a setting that names one.
fn uses_ipv6(options: &RenderOptions, pod_cidrs: &[IpNet]) -> bool {
    let addresses = options.node_ips.iter().chain(&options.host_addresses);
    let mut addresses = addresses.copied().chain(pod_cidrs.iter().map(IpNet::addr));
    addresses.any(|address| match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    })
}

/// What the programs counted, in words.
fn totals(agent: &Agent) -> String {
    match agent.datapath().counters().read() {
        Ok(counters) => {
            let counted = counters.into_iter().filter(|(_, packets)| *packets > 0);
            let counted: Vec<String> = counted
                .map(|(counter, packets)| format!("{} {packets}", counter.name()))
                .collect();
            if counted.is_empty() {
                "no packet was counted".to_owned()
            } else {
                counted.join(", ")
            }
        }
        Err(error) => format!("the counters cannot be read: {error}"),
    }
}
