//! `shunt agent`: events in, translation in the kernel, until a signal.

pub(crate) mod args;
mod beside;
mod early_rules;
mod end;
mod flowtables;
mod hangup;
mod host;
mod masquerade;
mod notify;
mod refusals;
mod sources;

use std::{num::NonZeroU8, path::Path, process::ExitCode, sync::Arc};

use anyhow::{Context as _, Result};
use shunt_datapath::{
    Datapath, DatapathError, DatapathOptions, Families, FilterWatch, InterfaceWatch, KnownRoutes,
    Loading, PacketLog, RejectLimit, has_tables,
};
use shunt_http::SocketFile;
use shunt_model::Renderer;
use shunt_runtime::{Agent, EventLoop, EventQueue, Inspector, Requests, queue};
use shunt_serve::{HttpListeners, HttpServer, Server};
use tokio::{sync::watch::Receiver, task::spawn_blocking};
use tracing::info;

use self::{
    args::AgentArgs,
    beside::Beside,
    early_rules::watch_early_rules,
    end::{finish, give_up},
    flowtables::watch_flowtables,
    hangup::outlive_hangups,
    host::{HostWatch, check_in, report_kernel, set_up_host},
    masquerade::watch_masquerade,
    notify::Starting,
    refusals::{check_families, check_snat_ports},
    sources::{Guests, Sources},
};
use crate::cli::{
    config::settings::KubeProxySettings,
    flags::{
        addresses::Addresses,
        apis::{ApiArgs, ApiPlaces},
        detect_local::DetectLocalArgs,
        node::NodeArgs,
        paths::{PinArgs, SocketArgs},
        take_over::TakeOverArgs,
    },
    log,
    socket_lb::log_socket_lb,
    stop::Stop,
    take_over::start_to_take_over,
};

/// Runs until a signal comes.
///
/// # Errors
///
/// The events cannot be opened, or the kernel does not take the programs.
pub(crate) fn run(args: AgentArgs) -> Result<ExitCode> {
    let kube_proxy = KubeProxySettings::of(&args.kube_proxy)?;
    let filter = args.log_filter(&kube_proxy)?;
    log::start_in(args.logging.log_format, filter);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(serve(args, &kube_proxy))
}

#[expect(
    clippy::too_many_lines,
    reason = "what an agent begins with is one list, whose order matters"
)]
async fn serve(args: AgentArgs, kube_proxy: &KubeProxySettings) -> Result<ExitCode> {
    let AgentArgs {
        events,
        kubernetes,
        consul,
        socket: SocketArgs { socket },
        socket_limits,
        interfaces,
        mut node,
        detect_local,
        hairpin_ips,
        snat,
        reject_rate,
        max_client_share,
        redirect,
        xdp,
        masquerade_all,
        take_over,
        guard,
        sockets,
        families,
        packet_log,
        logging: _,
        operator,
        sizes,
        timeouts,
        http,
        services: counted,
        apis,
        kube_proxy: _,
        pins: PinArgs { pin_dir },
        no_pin,
    } = args;
    check_in(kube_proxy)?;
    let limits = socket_limits.limits()?;
    check_snat_ports(snat.snat_ports)?;
    check_families(&node.pod_cidrs, families.families())?;
    outlive_hangups().context("cannot take SIGHUP")?;
    let pin_dir = (!no_pin).then_some(pin_dir);
    let mut stop = Stop::listen()?;
    let (follows_cluster, serves_all) = (kubernetes.is_on(), kubernetes.serves_all());
    let kubernetes = kube_proxy.kubernetes(kubernetes)?;
    let has_local = kube_proxy.localhost_node_ports(sockets.localhost_node_ports.is_on());
    let local_node_ports = if has_local {
        kubernetes.local_node_ports()
    } else {
        Families::NONE
    };
    let cluster = (kubernetes, apis.cluster_domain());
    let mut sources = Sources::open(events, cluster, consul, &node, sizes.table_sizes()).await?;
    // Before anything is touched: another agent may be at work here.
    let Some((socket_file, apis)) = listen(&socket, apis, &mut stop).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let steering = operator.steering(&socket)?;
    let (families, terminates_tcp) = (families.families(), sockets.terminate_tcp);
    let (http, conntrack_timeouts) = (
        kube_proxy.http(&http, follows_cluster),
        kube_proxy.timeouts(timeouts.timeouts()),
    );
    let configuration = kube_proxy.configz(&http, conntrack_timeouts);
    let http = HttpListeners::open(http.options(families, configuration, counted.service_metrics))?;
    let starting = Starting::begin();
    // Before anything that may take its time: a supervisor queries the process's health meanwhile.
    let is_pinned = pin_dir.as_deref().is_some_and(has_tables);
    let (queue, requests, mut http) = answer_for_health(http, follows_cluster, is_pinned)?;
    set_up_host(kube_proxy);
    let render_options = node.render_options()?;
    let (masquerade_all, detect_local) = (
        kube_proxy.masquerade_all(masquerade_all.is_on()),
        kube_proxy.detect_local(detect_local)?,
    );
    if !know_pods(&mut node, &mut sources, &detect_local, &mut stop).await? {
        return Ok(ExitCode::SUCCESS);
    }
    let pods = detect_local.detection(&node.pod_cidrs, redirect, families)?;
    let host = HostWatch::new(families, &snat, &node, &pods, &render_options);
    host.start(Arc::clone(queue.reports()));
    let defaults = DatapathOptions::default();
    let hairpin = Addresses::of("--hairpin-ip", &hairpin_ips)?;
    let snat_from = Addresses::of("--snat-ip", &snat.snat_ips)?;
    let (interfaces, excluded_interfaces) = interfaces.sets();
    let options = DatapathOptions {
        excluded_interfaces,
        pod_cidrs: node.pod_cidrs.clone(),
        pods: pods.clone(),
        masquerade_all,
        hairpin_v4: hairpin.v4.unwrap_or(defaults.hairpin_v4),
        hairpin_v6: hairpin.v6.unwrap_or(defaults.hairpin_v6),
        snat_v4: snat_from.v4,
        snat_v6: snat_from.v6,
        snat_ports: snat.snat_ports,
        rejects: RejectLimit { rate: reject_rate },
        client_share: max_client_share.and_then(NonZeroU8::new),
        count_traffic: counted.count_service_traffic.is_on(),
        lower_mss: node.dsr.dsr_lower_mss.is_on(),
        dsr_sources: node.dsr.dsr_source_ranges,
        redirect,
        xdp: xdp.options(),
        // An address that no Service of ours has may be one that another proxy serves.
        guard: guard.guard(serves_all),
        sockets: sockets.sockets(local_node_ports),
        timeouts: conntrack_timeouts,
        families,
        packet_log: packet_log.packet_log(),
        sizes: sizes.table_sizes(),
        pin_dir: pin_dir.clone(),
    };
    let set_up = set_up(options, &mut stop).await;
    let Some(mut datapath) = set_up.context("cannot set up the datapath")? else {
        return Ok(ExitCode::SUCCESS);
    };
    report_kernel(&datapath, queue.reports());
    look_for_connections(&datapath, take_over, &queue);
    let (links, addresses, routes) = watch(&mut datapath)?;
    let guests = Guests {
        // Ranges that identify the pods count alone, as for the programs.
        routes: (node.pod_cidrs.is_empty() || pods.interfaces.are_known()).then_some(routes),
        ranges: node.pod_cidrs,
    };
    let filters = FilterWatch::start().context("cannot watch the filters")?;
    let inspector = inspector(queue.clone(), &datapath);
    watch_early_rules(inspector.clone());
    watch_masquerade(inspector.clone());
    watch_flowtables(inspector.clone());
    // A table may be pinned that nothing has been written to.
    let is_empty = datapath.is_empty()?;
    queue.reports().set_over_pinned_tables(!is_empty);
    if !is_empty {
        sources.begin_over_pinned_tables();
    }
    let mut agent = Agent::new(Renderer::new(render_options), datapath, interfaces);
    agent.remember(apis.changes());
    let scan_interval = timeouts.scan_interval();
    let beside = Beside::start(&agent, scan_interval, terminates_tcp, &queue)?;
    let event_loop = EventLoop::new(
        agent,
        pin_dir.clone(),
        sources.name().or_else(|| apis.source_name()),
        sources.followed(),
        steering,
        operator.max_removal,
        Arc::clone(queue.reports()),
    );
    let apis = apis.serve(&inspector, &queue, sources.here())?;
    let (names, calls) = sources.start(queue, addresses, guests, socket)?;
    http.show(inspector.clone());
    let server = Server::start(socket_file, limits, calls, inspector);
    let server = server.context("cannot serve the socket")?;
    info!("ready: {}", names.join(", "));
    drop(starting);
    notify::ready();

    let run = event_loop.run(requests, links, filters, scan_interval, stop.wait());
    let agent = Box::pin(run).await;
    notify::stopping();
    drop((server, http, apis));
    beside.stop();
    finish(agent, pin_dir.as_deref())
}

/// Listens at the socket and where the APIs are to be served. `None` if the agent receives a signal to end
/// meanwhile: another process may hold the lock of a socket.
async fn listen(
    socket: &Path,
    apis: ApiArgs,
    stop: &mut Stop,
) -> Result<Option<(SocketFile, ApiPlaces)>> {
    let listening = async { anyhow::Ok((SocketFile::listen(socket).await?, apis.listen().await?)) };
    tokio::select! {
        listening = listening => listening.map(Some),
        () = stop.wait() => Ok(None),
    }
}

/// Makes the queue of events, and begins to answer for health by what is reported beside it.
fn answer_for_health(
    listeners: HttpListeners,
    follows_cluster: bool,
    is_pinned: bool,
) -> Result<(EventQueue, Requests, HttpServer)> {
    let (queue, requests) = queue();
    queue.reports().set_over_pinned_tables(is_pinned);
    if follows_cluster {
        // Until the cluster reports that it is.
        queue.reports().set_node_eligible(false);
    }
    let http = HttpServer::start(listeners, Arc::clone(queue.reports()))?;
    Ok((queue, requests, http))
}

/// Returns the inspector of the agent that reads this queue and has this datapath.
fn inspector(queue: EventQueue, datapath: &Datapath) -> Inspector {
    let (counters, services) = (datapath.counters(), datapath.services());
    let (counters, services) = (Arc::clone(counters), Arc::clone(services));
    let copies = Arc::clone(datapath.copies());
    Inspector::new(queue, datapath.connections(), counters, services, copies)
}

/// Requests the ranges of this node's pods from the cluster, if no flag gives them and they are of use. Returns whether
/// the agent is to go on: that may take minutes, in which a signal may end it.
async fn know_pods(
    node: &mut NodeArgs,
    sources: &mut Sources,
    detect_local: &DetectLocalArgs,
    stop: &mut Stop,
) -> Result<bool> {
    if node.pod_cidrs.is_empty() {
        node.pod_cidrs = tokio::select! {
            ranges = sources.pod_cidrs(detect_local.node_ranges()) => ranges?,
            () = stop.wait() => return Ok(false),
        };
    }
    Ok(true)
}

/// Sets the datapath up, with the programs at the cgroup; those of interfaces come with the events. `None`
/// if the agent receives a signal to end meanwhile: the kernel takes seconds to verify programs.
async fn set_up(options: DatapathOptions, stop: &mut Stop) -> Result<Option<Datapath>> {
    let (packet_log, pin_dir) = (options.packet_log, options.pin_dir.clone());
    let loading = Loading::new(options);
    let stop_loading = loading.stop();
    let mut loaded = spawn_blocking(|| loading.load());
    let mut datapath = tokio::select! {
        loaded = &mut loaded => loaded??,
        () = stop.wait() => {
            info!("stopping: the programs are not needed any more");
            stop_loading.stop();
            match loaded.await? {
                Err(DatapathError::Stopped) => {}
                // The load was complete before the stop.
                loaded => give_up(loaded?, pin_dir.as_deref())?,
            }
            return Ok(None);
        }
    };
    if matches!(packet_log, PacketLog::Debug) {
        drop(datapath.forward_packet_log()?);
    }
    datapath.attach_sockets()?;
    log_socket_lb(&datapath.sockets());
    Ok(Some(datapath))
}

/// Begins to look whether the agent takes over from kube-proxy, before its programs see a packet.
fn look_for_connections(datapath: &Datapath, take_over: TakeOverArgs, queue: &EventQueue) {
    let unknown = datapath.unknown_connections();
    start_to_take_over(take_over.mode(), unknown, Arc::clone(queue.reports()));
}

/// The kernel's routes, as they change.
type Routes = Receiver<Arc<KnownRoutes>>;

/// Watches the interfaces, with the uplinks if these depend on routes, the host's addresses, and the routes. Begins
/// before the first look at them, so that none is missed.
fn watch(datapath: &mut Datapath) -> Result<(InterfaceWatch, InterfaceWatch, Routes)> {
    let mut links = InterfaceWatch::links().context("cannot watch the interfaces")?;
    let uplinks = datapath.follow_uplinks();
    if let Some(uplinks) = uplinks.context("cannot follow the default routes")? {
        links = links.with(uplinks);
    }
    let screens = datapath.follow_screens();
    if let Some(screens) = screens.context("cannot follow what is on the devices of pods")? {
        links = links.with(screens);
    }
    let reverse_paths = datapath.follow_reverse_paths();
    links = links.with(reverse_paths.context("cannot follow the setting rp_filter")?);
    let routes = datapath.follow_routes();
    let routes = routes.context("cannot follow the routes")?;
    links = links.with(routes.clone());
    let addresses = InterfaceWatch::addresses();
    Ok((
        links,
        addresses.context("cannot watch the host's addresses")?,
        routes,
    ))
}
