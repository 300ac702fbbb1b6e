//! `shunt agent`: events in, translation in the kernel, until a signal.

use std::{collections::BTreeSet, net::IpAddr, path::Path, process::ExitCode, sync::Arc};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use ipnet::IpNet;
use shunt::{
    Agent, EventLoop, EventQueue, EventSource as _, FileSource, HostNeeds, HostSettings,
    HttpListeners, HttpServer, Input, Inspector, Server, SocketFile, SocketSource, host_addresses,
    is_gone, kubernetes::KubernetesSource, missing_capabilities, queue, raise_open_files,
    set_oom_score,
};
use shunt_datapath::{
    Datapath, DatapathError, DatapathOptions, Families, InterfaceWatch, PacketLog, PodDetection,
    RejectLimit, Scanner, Sweeper, cleanup,
};
use shunt_model::{RenderOptions, Renderer};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use crate::cli::{
    config::{flags::KubeProxyFlags, settings::KubeProxySettings},
    flags::{
        addresses::Addresses,
        detect_local::DetectLocalArgs,
        families::FamilyArgs,
        guard::GuardArgs,
        http::HttpArgs,
        interfaces::InterfaceArgs,
        kubernetes::KubernetesArgs,
        node::NodeArgs,
        packet_log::PacketLogArgs,
        paths::{PinArgs, SocketArgs},
        sizes::SizeArgs,
        snat::SnatArgs,
        sockets::SocketLbArgs,
        switch::Switch,
        take_over::TakeOverArgs,
        timeouts::TimeoutArgs,
    },
    log,
    socket_lb::log_socket_lb,
    take_over::start_to_take_over,
};

/// Translate services in the kernel, as events describe them
///
/// Runs until SIGINT or SIGTERM. Translation goes on without it, as it last was, until the next
/// agent takes over or `shunt cleanup` ends it. Needs root, or CAP_BPF, CAP_NET_ADMIN
/// and CAP_PERFMON. RUST_LOG sets what is logged (default: info).
#[derive(Debug, Args)]
#[command(mut_arg("masquerade-all", Switch::flag))]
pub(crate) struct AgentArgs {
    /// A file of events besides those of the socket, one JSON object a line; - is standard input
    #[arg(long, value_name = "FILE")]
    events: Option<Input>,

    #[command(flatten)]
    kubernetes: KubernetesArgs,

    #[command(flatten)]
    socket: SocketArgs,

    #[command(flatten)]
    interfaces: InterfaceArgs,

    #[command(flatten)]
    node: NodeArgs,

    #[command(flatten)]
    detect_local: DetectLocalArgs,

    /// The address, one for each family, that a pod sees when it reaches itself through its
    /// service, and that nobody else may have [default: 169.254.254.1 and fd9a:7452:4a6d::1]
    #[arg(long = "hairpin-ip", value_name = "IP")]
    hairpin_ips: Vec<IpAddr>,

    #[command(flatten)]
    snat: SnatArgs,

    /// How many packets a second are rejected with an ICMP error where nothing serves them, a
    /// twentieth of it at once, before others are dropped; 0 is any number
    #[arg(long, value_name = "N", default_value_t = RejectLimit::default().rate)]
    reject_rate: u32,

    /// Hand packets for pods of this node, and their replies, straight to the device, past the
    /// host's stack and its netfilter rules; needs --pod-cidr, or interfaces that tell the pods
    #[arg(long)]
    redirect: bool,

    /// Give connections to ClusterIPs this node's address as their source, whoever the client is, and
    /// not only where the replies would not come back otherwise
    #[arg(
        id = "masquerade-all",
        long,
        value_name = "BOOL",
        default_value_t,
        hide_default_value = true
    )]
    masquerade_all: Switch,

    #[command(flatten)]
    take_over: TakeOverArgs,

    #[command(flatten)]
    guard: GuardArgs,

    #[command(flatten)]
    sockets: SocketLbArgs,

    #[command(flatten)]
    families: FamilyArgs,

    #[command(flatten)]
    packet_log: PacketLogArgs,

    #[command(flatten)]
    sizes: SizeArgs,

    #[command(flatten)]
    timeouts: TimeoutArgs,

    #[command(flatten)]
    http: HttpArgs,

    #[command(flatten)]
    kube_proxy: KubeProxyFlags,

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
pub(crate) fn run(args: AgentArgs) -> Result<ExitCode> {
    let kube_proxy = KubeProxySettings::of(&args.kube_proxy)?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        let default = match args.packet_log.packet_log() {
            _ if kube_proxy.is_verbose => "debug",
            PacketLog::Off => "info",
            PacketLog::Debug => "info,shunt_ebpf=debug",
        };
        EnvFilter::new(default)
    });
    log::start(filter);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(serve(args, &kube_proxy))
}

#[expect(
    clippy::too_many_lines,
    reason = "the parts of an agent, put together one after the other"
)]
async fn serve(args: AgentArgs, kube_proxy: &KubeProxySettings) -> Result<ExitCode> {
    let AgentArgs {
        events,
        kubernetes,
        socket: SocketArgs { socket },
        interfaces,
        mut node,
        detect_local,
        hairpin_ips,
        snat,
        reject_rate,
        redirect,
        masquerade_all,
        take_over,
        guard,
        sockets,
        families,
        packet_log,
        sizes,
        timeouts,
        http,
        kube_proxy: _,
        pins: PinArgs { pin_dir },
        no_pin,
    } = args;
    require_capabilities()?;
    for warning in &kube_proxy.warnings {
        warn!("{warning}");
    }
    if let Err(error) = raise_open_files() {
        warn!(%error, "the limit of open files stays: each interface takes two");
    }
    let pin_dir = (!no_pin).then_some(pin_dir);
    let packet_log = packet_log.packet_log();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let file = events.map(open_events).transpose()?;
    let (host, host_changes) = watch::channel(BTreeSet::new());
    let follows_cluster = kubernetes.is_on();
    let cluster = open_cluster(kube_proxy.kubernetes(kubernetes)?, host_changes).await?;
    // Before anything is touched: another agent may be at work here.
    let socket_file = SocketFile::listen(&socket)?;
    let families = families.families();
    let (http, conntrack_timeouts) = (
        kube_proxy.http(&http, follows_cluster),
        kube_proxy.timeouts(timeouts.timeouts()),
    );
    let configuration = kube_proxy.configz(&http, conntrack_timeouts);
    let http = HttpListeners::open(http.options(families, configuration))?;
    set_up_host(kube_proxy);
    let render_options = node.render_options()?;
    let (masquerade_all, detect_local) = (
        kube_proxy.masquerade_all(masquerade_all.is_on()),
        kube_proxy.detect_local(detect_local)?,
    );
    if let Some(cluster) = &cluster
        && detect_local.is_by_node()
        && node.pod_cidrs.is_empty()
    {
        node.pod_cidrs = cluster.pod_cidrs().await?;
    }
    let pods = detect_local.detection(&node.pod_cidrs, redirect)?;
    warn_of_host(families, &snat, &node, &pods, &render_options);
    let defaults = DatapathOptions::default();
    let hairpin = Addresses::of("--hairpin-ip", &hairpin_ips)?;
    let snat_from = Addresses::of("--snat-ip", &snat.snat_ips)?;
    let terminates_tcp = sockets.terminate_tcp;
    let (interfaces, excluded_interfaces) = interfaces.sets();
    let mut datapath = set_up(&DatapathOptions {
        excluded_interfaces,
        pod_cidrs: node.pod_cidrs,
        pods,
        masquerade_all,
        hairpin_v4: hairpin.v4.unwrap_or(defaults.hairpin_v4),
        hairpin_v6: hairpin.v6.unwrap_or(defaults.hairpin_v6),
        snat_v4: snat_from.v4,
        snat_v6: snat_from.v6,
        snat_ports: snat.snat_ports,
        rejects: RejectLimit { rate: reject_rate },
        redirect,
        guard: guard.guard(follows_cluster),
        sockets: sockets.sockets(),
        timeouts: conntrack_timeouts,
        families,
        packet_log,
        sizes: sizes.table_sizes(),
        pin_dir: pin_dir.clone(),
    })
    .context("cannot set up the datapath")?;
    // Before our programs see a packet.
    start_to_take_over(take_over.mode(), datapath.unknown_connections()?);
    let _packet_log = match packet_log {
        PacketLog::Off => None,
        PacketLog::Debug => Some(datapath.forward_packet_log()?),
    };
    // The watch begins before the first look at the interfaces, so that none is missed.
    let links = InterfaceWatch::links().context("cannot watch the interfaces")?;
    let addresses = InterfaceWatch::addresses().context("cannot watch the host's addresses")?;
    let connections = datapath.connections();
    let counters = Arc::clone(datapath.counters());
    let agent = Agent::new(Renderer::new(render_options), datapath, interfaces);
    let scanner = Scanner::start(
        connections.clone(),
        Arc::clone(agent.datapath().counters()),
        timeouts.scan_interval(),
    )
    .context("cannot start counting connections")?;
    let (queue, requests) = queue();
    let sweeper = start_sweeper(&agent, terminates_tcp, &queue)?;
    let followed = cluster.as_ref().map(KubernetesSource::monitor);
    let event_loop = EventLoop::new(agent, pin_dir.clone(), followed);
    host.send_replace(host_addresses().context("cannot read the addresses of this host")?);
    tokio::spawn(follow_addresses(addresses, queue.clone(), host));
    let inspector = Inspector::new(queue.clone(), connections, counters);
    let mut sources = Vec::new();
    if let Some(file) = file {
        sources.push(file.to_string());
        file.start(queue.clone())
            .context("cannot start reading events")?;
    }
    if let Some(cluster) = cluster {
        sources.push(cluster.to_string());
        cluster
            .start(queue.clone())
            .context("cannot start following Kubernetes")?;
    }
    let calls = SocketSource::new(socket);
    sources.push(calls.to_string());
    let calls = calls.start(queue).context("cannot take calls")?;
    let http = HttpServer::start(http, inspector.clone())?;
    let server = Server::start(socket_file, calls, inspector).context("cannot serve the socket")?;
    info!("ready: {}", sources.join(", "));

    let stop = either(&mut interrupt, &mut terminate);
    let agent = event_loop.run(requests, links, stop).await;
    drop((server, http));
    scanner.stop();
    sweeper.stop();
    finish(agent, pin_dir.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// Waits for one of two signals.
async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

/// Starts to destroy sockets whose backend is gone; those of TCP if they are to be terminated.
fn start_sweeper(agent: &Agent, terminates_tcp: bool, queue: &EventQueue) -> Result<Sweeper> {
    let sockets = Arc::clone(agent.datapath().stale_sockets());
    Sweeper::start(sockets, terminates_tcp.then(|| is_gone(queue.clone())))
        .context("cannot start to destroy sockets whose backend is gone")
}

/// Tells the event loop, and whoever else looks at `host`, of the host's addresses, as they are now
/// and whenever they change.
async fn follow_addresses(
    mut changes: InterfaceWatch,
    queue: EventQueue,
    host: watch::Sender<BTreeSet<IpAddr>>,
) {
    loop {
        match host_addresses() {
            Ok(addresses) => {
                host.send_if_modified(|known| {
                    let is_new = *known != addresses;
                    known.clone_from(&addresses);
                    is_new
                });
                if queue.host_addresses(addresses).await.is_err() {
                    return;
                }
            }
            Err(error) => warn!(%error, "the addresses of this host cannot be read"),
        }
        changes.changed().await;
    }
}

/// Ends the agent. What is pinned stays, unless there is nothing to keep up.
fn finish(agent: Agent, pin_dir: Option<&Path>) -> Result<()> {
    info!("stopping: {}", totals(&agent));
    let datapath = agent.datapath();
    let idle = datapath.is_empty()? && datapath.connections().is_empty()?;
    drop(agent);
    if let (Some(pin_dir), true) = (pin_dir, idle) {
        cleanup(pin_dir)?;
        info!("nothing is translated: nothing stays pinned");
    }
    Ok(())
}

/// Refuses to begin without what the kernel asks for: its own answers name nothing.
fn require_capabilities() -> Result<()> {
    let missing = missing_capabilities().context("cannot read what this process may do")?;
    if !missing.is_empty() {
        bail!(
            "{} missing: translation needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, or root",
            missing.join(", ")
        );
    }
    Ok(())
}

/// Sets what of the kernel kube-proxy's configuration asks for.
fn set_up_host(kube_proxy: &KubeProxySettings) {
    for complaint in kube_proxy.netfilter.apply() {
        warn!("{complaint}");
    }
    if let Some(score) = kube_proxy.oom_score
        && let Err(error) = set_oom_score(score)
    {
        warn!(%error, "oom_score_adj cannot be set to {score}");
    }
}

/// Logs what of this host stands in the way.
fn warn_of_host(
    families: Families,
    snat: &SnatArgs,
    node: &NodeArgs,
    pods: &PodDetection,
    options: &RenderOptions,
) {
    let needs = HostNeeds {
        snat_ports: snat.snat_ports,
        pod_cidrs: &[&node.pod_cidrs[..], &pods.cluster_cidrs].concat(),
        pods_by_interface: pods.interfaces.are_known(),
        ipv4: families.ipv4,
        ipv6: families.ipv6 && uses_ipv6(options, &node.pod_cidrs),
    };
    for complaint in HostSettings::read().complaints(&needs) {
        warn!("{complaint}");
    }
}

fn open_events(events: Input) -> Result<FileSource> {
    let failed = format!("cannot open the events in {events}");
    FileSource::open(events).context(failed)
}

/// The source that follows a cluster, if there is to be one.
async fn open_cluster(
    args: KubernetesArgs,
    host: watch::Receiver<BTreeSet<IpAddr>>,
) -> Result<Option<KubernetesSource>> {
    let Some(options) = args.options()? else {
        return Ok(None);
    };
    Ok(Some(KubernetesSource::new(options, host).await?))
}

/// Sets the datapath up, with the programs at the cgroup; those of interfaces come with the events.
fn set_up(options: &DatapathOptions) -> Result<Datapath, DatapathError> {
    let mut datapath = Datapath::load(options)?;
    datapath.attach_sockets()?;
    log_socket_lb(&datapath.sockets());
    Ok(datapath)
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
