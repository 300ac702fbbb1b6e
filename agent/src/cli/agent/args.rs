//! The arguments of an agent.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use anyhow::Result;
use clap::Args;
use shunt_datapath::{PacketLog, RejectLimit};
use shunt_source::Input;
use tracing_subscriber::EnvFilter;

use crate::cli::{
    config::{flags::KubeProxyFlags, settings::KubeProxySettings},
    flags::{
        apis::ApiArgs,
        consul::ConsulArgs,
        detect_local::DetectLocalArgs,
        families::FamilyArgs,
        guard::GuardArgs,
        http::HttpArgs,
        interfaces::InterfaceArgs,
        kubernetes::KubernetesArgs,
        logging::LogArgs,
        node::NodeArgs,
        operator::OperatorArgs,
        packet_log::PacketLogArgs,
        paths::{PinArgs, SocketArgs},
        services::ServiceCountArgs,
        sizes::SizeArgs,
        snat::SnatArgs,
        socket_limits::SocketLimitArgs,
        sockets::SocketLbArgs,
        switch::Switch,
        take_over::TakeOverArgs,
        timeouts::TimeoutArgs,
        xdp::XdpArgs,
    },
    log,
};

/// Translate services in the kernel, as events describe them
///
/// Runs until SIGINT or SIGTERM. Translation goes on without it, as it last was, until the next
/// agent takes over or `shunt cleanup` ends it. Needs root, or CAP_BPF, CAP_NET_ADMIN
/// and CAP_PERFMON. Flags and the file of --config hold until a restart, which interrupts nothing; SIGHUP has
/// the definitions of --local-services read again, and nothing else.
#[derive(Debug, Args)]
#[command(mut_arg("masquerade-all", Switch::flag))]
pub(crate) struct AgentArgs {
    /// A file of events besides those of the socket, one JSON object a line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) events: Option<Input>,

    #[command(flatten)]
    pub(super) kubernetes: KubernetesArgs,

    #[command(flatten)]
    pub(super) consul: ConsulArgs,

    #[command(flatten)]
    pub(super) socket: SocketArgs,

    #[command(flatten)]
    pub(super) socket_limits: SocketLimitArgs,

    #[command(flatten)]
    pub(super) interfaces: InterfaceArgs,

    #[command(flatten)]
    pub(super) node: NodeArgs,

    #[command(flatten)]
    pub(super) detect_local: DetectLocalArgs,

    /// The address, one for each family, that a pod sees when it reaches itself through its service, and that nothing
    /// else may have [default: 169.254.254.1 and fd9a:7452:4a6d::1]
    #[arg(long = "hairpin-ip", value_name = "IP")]
    pub(super) hairpin_ips: Vec<IpAddr>,

    #[command(flatten)]
    pub(super) snat: SnatArgs,

    /// Packets a second that are rejected with an ICMP error where nothing serves them, a twentieth of it at once,
    /// before others are dropped; 0 is any number
    #[arg(long, value_name = "N", default_value_t = RejectLimit::default().rate)]
    pub(super) reject_rate: u32,

    /// Percentage of the connections, and of the rejections, that one client may have while there are too few places
    /// for all. A client is an IPv4 address or an IPv6 /64. New connections beyond it are dropped while more than half
    /// of the conntrack table has connections that never give way; by default any client may have them all
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(super) max_client_share: Option<u8>,

    /// Hand packets for pods of this node, and their replies, straight to the device, past the host's stack and its
    /// netfilter rules; needs --pod-cidr, or interfaces that identify the pods
    #[arg(long)]
    pub(super) redirect: bool,

    #[command(flatten)]
    pub(super) xdp: XdpArgs,

    /// Give connections to ClusterIPs this node's address as their source, for all clients, and not only where the
    /// replies would not come back otherwise
    #[arg(
        id = "masquerade-all",
        long,
        value_name = "BOOL",
        default_value_t,
        hide_default_value = true
    )]
    pub(super) masquerade_all: Switch,

    #[command(flatten)]
    pub(super) take_over: TakeOverArgs,

    #[command(flatten)]
    pub(super) guard: GuardArgs,

    #[command(flatten)]
    pub(super) sockets: SocketLbArgs,

    #[command(flatten)]
    pub(super) families: FamilyArgs,

    #[command(flatten)]
    pub(super) packet_log: PacketLogArgs,

    #[command(flatten)]
    pub(super) logging: LogArgs,

    #[command(flatten)]
    pub(super) operator: OperatorArgs,

    #[command(flatten)]
    pub(super) sizes: SizeArgs,

    #[command(flatten)]
    pub(super) timeouts: TimeoutArgs,

    #[command(flatten)]
    pub(super) http: HttpArgs,

    #[command(flatten)]
    pub(super) services: ServiceCountArgs,

    #[command(flatten)]
    pub(super) apis: ApiArgs,

    #[command(flatten)]
    pub(super) kube_proxy: KubeProxyFlags,

    #[command(flatten)]
    pub(super) pins: PinArgs,

    /// Pin nothing: translation ends with the agent
    #[arg(long, conflicts_with = "pin_dir")]
    pub(super) no_pin: bool,
}

impl AgentArgs {
    /// Returns the filter of the log: RUST_LOG, or else these arguments; and the log of packets, if it is on.
    ///
    /// # Errors
    ///
    /// RUST_LOG is no filter.
    pub(super) fn log_filter(&self, kube_proxy: &KubeProxySettings) -> Result<EnvFilter> {
        let given = self.logging.log_filter.as_deref();
        let default = given.unwrap_or(if kube_proxy.is_verbose {
            "debug"
        } else {
            log::DEFAULT
        });
        let filter = log::filter(default)?;
        Ok(match self.packet_log.packet_log() {
            PacketLog::Off => filter,
            // A flag of its own switches it on, whatever the filter of the rest.
            PacketLog::Debug => filter.add_directive("shunt_ebpf=debug".parse()?),
        })
    }
}
