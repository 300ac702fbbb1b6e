//! Each flag's value on its way to where it acts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    fs,
    path::Path,
};

use clap::{Arg, Args as _, Command, CommandFactory as _, Parser};
use shunt_datapath::{DatapathOptions, Families};
use tempfile::TempDir;
use tokio::{runtime, sync::watch};

use super::*;
use crate::cli::flags::addresses::Addresses;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: AgentArgs,
}

/// The settings of an agent by where they act, as text.
type Settings = BTreeMap<&'static str, String>;

/// A flag with its value, and behind it other flags that it needs; the setting that it changes; and the setting's text
/// with the value. `DIR` is a folder of the test.
struct Row(&'static str, &'static str, &'static str);

const ROWS: &[Row] = &[
    Row("--events=/run/events", "events", "/run/events"),
    Row("--kubernetes", "cluster", "Some(KubernetesOptions"),
    Row(
        "--kubeconfig=/etc/k --kubernetes",
        "cluster",
        "kubeconfig: Some(\"/etc/k\")",
    ),
    Row(
        "--kube-apiserver=https://a --kubernetes",
        "cluster",
        "url: Some(\"https://a\")",
    ),
    Row(
        "--master=https://a --kubernetes",
        "cluster",
        "url: Some(\"https://a\")",
    ),
    Row(
        "--hostname-override=n7 --kubernetes",
        "cluster",
        "node_name: \"n7\"",
    ),
    Row(
        "--service-proxy-name=own --kubernetes",
        "cluster",
        "proxy_name: Some(\"own\")",
    ),
    Row(
        "--nodeport-addresses=10.9.0.0/16 --kubernetes",
        "cluster",
        "10.9.0.0/16",
    ),
    Row(
        "--forwarding-annotation=false --kubernetes",
        "cluster",
        "forwarding_by_annotation: false",
    ),
    Row(
        "--protect-host-ports=false --kubernetes",
        "cluster",
        "protects_host_ports: false",
    ),
    Row(
        "--remote-node-ports --kubernetes",
        "cluster",
        "remote_node_ports: true",
    ),
    Row(
        "--lookup-pods=node --kubernetes",
        "cluster",
        "lookup_pods: Node",
    ),
    Row(
        "--linkerd-cluster-domain=example --kubernetes",
        "cluster",
        "cluster_domain: \"example\"",
    ),
    Row(
        "--consul=http://192.0.2.7:8500 --consul-config=DIR/consul.toml",
        "consul",
        "192.0.2.7",
    ),
    Row(
        "--consul-config=DIR/consul.toml --consul",
        "consul",
        "ConsulSource",
    ),
    Row(
        "--consul-node=n7 --consul --consul-config=DIR/consul.toml",
        "consul",
        "\"n7\"",
    ),
    Row(
        "--consul-token-file=DIR/token --consul --consul-config=DIR/consul.toml",
        "consul",
        "DIR/token",
    ),
    Row(
        "--consul-settle=77s --consul --consul-config=DIR/consul.toml",
        "consul",
        "77s",
    ),
    Row(
        "--consul-state=DIR/kept.json --consul --consul-config=DIR/consul.toml",
        "consul",
        "DIR/kept.json",
    ),
    Row("--socket=/run/x.sock", "socket", "/run/x.sock"),
    Row("--interface=veth*", "interfaces", "veth*"),
    Row(
        "--exclude-interface=docker0",
        "excluded interfaces",
        "docker0",
    ),
    Row("--node-ip=192.0.2.7", "node addresses", "192.0.2.7"),
    Row(
        "--local-backend-weight=7",
        "balancing",
        "local_backend_weight: 7",
    ),
    Row(
        "--external-selection=maglev",
        "balancing",
        "external_selection: Maglev",
    ),
    Row("--maglev-entries-per-backend=700", "balancing", "700"),
    Row("--forwarding=dsr", "balancing", "forwarding: Dsr"),
    Row(
        "--forwarding=dsr --kubernetes",
        "cluster",
        "forwarding: Dsr",
    ),
    Row(
        "--dsr-lower-mss=false",
        "dsr",
        "dsr_lower_mss: Switch(false)",
    ),
    Row("--dsr-source-range=10.77.0.0/16", "dsr", "10.77.0.0/16"),
    Row("--pod-cidr=10.77.0.0/16", "pod ranges", "10.77.0.0/16"),
    Row(
        "--detect-local-mode=BridgeInterface --pod-bridge-interface=cni0",
        "pods",
        "Bridge(\"cni0\")",
    ),
    Row(
        "--pod-bridge-interface=cni0 --detect-local-mode=BridgeInterface",
        "pods",
        "Bridge(\"cni0\")",
    ),
    Row(
        "--pod-interface-name-prefix=cali --detect-local-mode=InterfaceNamePrefix",
        "pods",
        "Prefix(\"cali\")",
    ),
    Row("--cluster-cidr=10.77.0.0/16", "pods", "10.77.0.0/16"),
    Row("--hairpin-ip=169.254.7.7", "hairpin", "169.254.7.7"),
    Row("--snat-ip=192.0.2.7", "SNAT addresses", "192.0.2.7"),
    Row(
        "--snat-ports=2000-2006",
        "SNAT ports",
        "first: 2000, count: 7",
    ),
    Row("--reject-rate=77", "reject rate", "77"),
    Row("--max-client-share=77", "client share", "Some(77)"),
    Row("--redirect", "redirect", "true"),
    Row("--xdp=generic", "XDP", "mode: Generic"),
    Row("--xdp-interface=bond0", "XDP", "bond0"),
    Row("--masquerade-all", "masquerade all", "true"),
    Row("--take-over=off", "take over", "Off"),
    Row("--guard", "guard", "guard: true"),
    Row("--answer-echo=false", "guard", "echo: false"),
    Row("--socket-lb=all", "sockets", "mode: All, required: true"),
    Row(
        "--cgroup=/sys/fs/x",
        "sockets",
        "cgroup: Some(\"/sys/fs/x\")",
    ),
    Row(
        "--iptables-localhost-nodeports=false",
        "loopback NodePorts",
        "false",
    ),
    Row(
        "--protect-node-ports",
        "sockets",
        "protect_node_ports: true",
    ),
    Row("--terminate-tcp", "sockets", "terminate_tcp: true"),
    Row("--ip-families=ipv6", "families", "ipv4: false, ipv6: true"),
    Row("--ip-families=ipv6", "HTTP", "families: [V6]"),
    Row("--packet-log=debug", "packet log", "Debug"),
    Row("--log-format=json", "log", "Json"),
    Row(
        "--log-filter=shunt_datapath=trace",
        "log",
        "shunt_datapath=trace",
    ),
    Row("--overrides=DIR/own.json", "steering", "DIR/own.json"),
    Row("--max-removal=77", "removal", "Some(77)"),
    Row("--max-frontends=77", "sizes", "frontends: 77,"),
    Row("--max-slots=77", "sizes", "slots: 77,"),
    Row("--max-backends=77", "sizes", "backends: 77,"),
    Row("--max-conntrack=77", "sizes", "conntrack: 77,"),
    Row("--max-affinity=77", "sizes", "affinity: 77,"),
    Row("--max-source-ranges=77", "sizes", "source_ranges: 77,"),
    Row("--max-fragments=77", "sizes", "fragments: 77,"),
    Row("--max-services=77", "sizes", "services: 77 "),
    Row(
        "--conntrack-tcp-timeout-established=77s",
        "timeouts",
        "tcp_established: 77,",
    ),
    Row(
        "--conntrack-tcp-timeout-close-wait=77s",
        "timeouts",
        "tcp_closing: 77,",
    ),
    Row(
        "--conntrack-tcp-timeout-closed=77s",
        "timeouts",
        "tcp_closed: 77,",
    ),
    Row(
        "--conntrack-tcp-timeout-time-wait=77s",
        "timeouts",
        "tcp_time_wait: 77,",
    ),
    Row("--conntrack-udp-timeout=77s", "timeouts", "udp: 77,"),
    Row(
        "--conntrack-udp-timeout-stream=77s",
        "timeouts",
        "udp_stream: 77,",
    ),
    Row("--conntrack-scan-interval=77s", "scan interval", "77s"),
    Row(
        "--healthz-bind-address=192.0.2.7:77",
        "HTTP",
        "health: Some(192.0.2.7:77)",
    ),
    Row(
        "--metrics-bind-address=192.0.2.7:77",
        "HTTP",
        "metrics: Some(192.0.2.7:77)",
    ),
    Row(
        "--probe-bind-address=192.0.2.7:77",
        "HTTP",
        "probes: Some(192.0.2.7:77)",
    ),
    Row("--bind-address-hard-fail", "HTTP", "hard_fail: true"),
    Row("--count-service-traffic", "service traffic", "true"),
    Row("--service-metrics=false", "HTTP", "shows_services: false"),
    Row(
        "--linkerd-api=unix:DIR/linkerd",
        "APIs",
        "LinkerdPlace(Some",
    ),
    Row(
        "--linkerd-opaque-ports=77 --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "PortRange { first: 77, last: 77 }",
    ),
    Row(
        "--linkerd-cluster-domain=example --linkerd-api=unix:DIR/linkerd",
        "APIs",
        "cluster_domain: \"example\"",
    ),
    Row("--ui=unix:DIR/ui", "APIs", "UiPlace(Some"),
    Row(
        "--ui-host=page.example --ui=unix:DIR/ui",
        "APIs",
        "page.example",
    ),
    Row(
        "--ui-token-file=DIR/token --ui=unix:DIR/ui",
        "APIs",
        "token: Some",
    ),
    Row("--pin-dir=/sys/fs/bpf/x", "pins", "/sys/fs/bpf/x"),
    Row("--no-pin", "pins", "None"),
];

/// Flags without a setting that can be shown before the agent runs. Each has an end-to-end test.
const ELSEWHERE: [&str; 14] = [
    "federation-datacenter",
    "federation-gateway",
    "federation-listen",
    "federation-primary",
    "federation-read-only",
    "federation-state",
    "federation-token-file",
    "linkerd-api-remote",
    "local-address",
    "local-any-http-check",
    "local-api",
    "local-frontends",
    "local-services",
    "local-state",
];

/// The settings of an agent with these flags, as `serve` makes them.
async fn settings(words: &[String]) -> Result<Settings> {
    let line = ["agent".to_owned()]
        .into_iter()
        .chain(words.iter().cloned());
    let args = Line::try_parse_from(line)?.args;
    let log = args.log_filter(&KubeProxySettings::default())?;
    let AgentArgs {
        events,
        kubernetes,
        consul,
        socket: SocketArgs { socket },
        interfaces,
        node,
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
        logging,
        operator,
        sizes,
        timeouts,
        http,
        services,
        apis,
        kube_proxy: _,
        pins: PinArgs { pin_dir },
        no_pin,
    } = args;
    let (steering, max_removal) = (operator.steering(&socket), operator.max_removal);
    let (families, table_sizes) = (families.families(), sizes.table_sizes());
    let pods = detect_local.detection(&node.pod_cidrs, redirect, families);
    let (wanted, excluded) = interfaces.sets();
    let guard = guard.guard(kubernetes.serves_all());
    let balancing = node.render_options()?.balancing;
    let cluster = kubernetes.options(node.forwarding(), table_sizes, apis.cluster_domain())?;
    let http = http.options(families, String::new(), services.service_metrics);
    let shown: [(&str, &dyn Debug); 33] = [
        ("events", &events),
        ("cluster", &cluster),
        ("consul", &consul.open(watch::channel(None).1)?),
        ("socket", &socket),
        ("interfaces", &wanted),
        ("excluded interfaces", &excluded),
        ("node addresses", &node.render_options()?.node_ips),
        ("balancing", &balancing),
        ("dsr", &node.dsr),
        ("pod ranges", &node.pod_cidrs),
        ("pods", &pods.ok()),
        ("hairpin", &Addresses::of("--hairpin-ip", &hairpin_ips)?),
        (
            "SNAT addresses",
            &Addresses::of("--snat-ip", &snat.snat_ips)?,
        ),
        ("SNAT ports", &snat.snat_ports),
        ("reject rate", &reject_rate),
        ("client share", &max_client_share),
        ("redirect", &redirect),
        ("XDP", &xdp.options()),
        ("masquerade all", &masquerade_all.is_on()),
        ("take over", &take_over.mode()),
        ("guard", &guard),
        ("loopback NodePorts", &sockets.localhost_node_ports.is_on()),
        ("sockets", &sockets.sockets(Families::NONE)),
        ("families", &families),
        ("packet log", &packet_log.packet_log()),
        ("log", &(logging.log_format, log.to_string())),
        ("steering", &steering.ok()),
        ("removal", &max_removal),
        ("sizes", &table_sizes),
        ("scan interval", &timeouts.scan_interval()),
        ("HTTP", &http),
        ("service traffic", &services.count_service_traffic.is_on()),
        ("APIs", &apis.listen().await?),
    ];
    let options = DatapathOptions {
        timeouts: timeouts.timeouts(),
        pin_dir: (!no_pin).then_some(pin_dir),
        ..DatapathOptions::default()
    };
    let mut settings: Settings = shown
        .into_iter()
        .map(|(name, shown)| (name, format!("{shown:?}")))
        .collect();
    settings.insert("timeouts", format!("{:?}", options.timeouts));
    settings.insert("pins", format!("{:?}", options.pin_dir));
    Ok(settings)
}

/// A folder with files that flags name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("consul.toml", ""), ("token", "secret\n")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The words of a row.
fn words(text: &str, folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let words = text.split(' ').filter(|word| !word.is_empty());
    words.map(|word| word.replace("DIR", folder)).collect()
}

#[test]
fn each_flags_value_arrives_where_it_acts() {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for Row(text, setting, value) in ROWS {
        // What listens at a socket is gone with the folder.
        let shown = |text: &str| {
            let folder = folder();
            let words = words(text, folder.path());
            let settings = runtime.block_on(settings(&words))?;
            anyhow::Ok(settings[setting].replace(folder.path().to_str().unwrap(), "DIR"))
        };
        let with = shown(text).unwrap_or_else(|error| panic!("{text}: {error:#}"));
        assert!(with.contains(value), "{text}: {setting}: {with}");
        // Two flags may need each other.
        let (_, others) = text.split_once(' ').unwrap_or((text, ""));
        let without = shown(others).or_else(|_| shown("")).unwrap();
        assert!(!without.contains(value), "{others}: {setting}: {without}");
    }
}

#[test]
fn no_flag_is_left_out() {
    let long = |flag: &Arg| flag.get_long().map(ToOwned::to_owned);
    let theirs = KubeProxyFlags::augment_args(Command::new("agent"));
    let theirs: BTreeSet<_> = theirs.get_arguments().filter_map(long).collect();
    let all: BTreeSet<_> = Line::command().get_arguments().filter_map(long).collect();
    let own: BTreeSet<_> = all.difference(&theirs).cloned().collect();
    let name = |row: &Row| {
        let flag = row.0.split([' ', '=']).next().unwrap();
        flag.trim_start_matches("--").to_owned()
    };
    let tested = ROWS.iter().map(name);
    let tested: BTreeSet<_> = tested.chain(ELSEWHERE.map(ToOwned::to_owned)).collect();
    assert_eq!(tested, own);
}
