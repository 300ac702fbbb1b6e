//! Each flag's value on its way to where it acts.

mod rows;

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

use self::rows::{ELSEWHERE, ROWS, Row, SHORT};
use super::*;
use crate::cli::flags::addresses::Addresses;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: AgentArgs,
}

/// The settings of an agent by where they act, as text.
type Settings = BTreeMap<&'static str, String>;

/// The settings of an agent with these flags, as `serve` makes them. The folder has its files.
async fn settings(words: &[String], folder: &Path) -> Result<Settings> {
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
        socket_limits,
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
    let max_removal = operator.max_removal;
    let steering = operator.steering(&folder.join("socket"));
    let (families, table_sizes) = (families.families(), sizes.table_sizes());
    let pods = detect_local.detection(&node.pod_cidrs, redirect, families);
    let (wanted, excluded) = interfaces.sets();
    let guard = guard.guard(kubernetes.serves_all());
    let balancing = node.render_options()?.balancing;
    let cluster = kubernetes.options(node.forwarding(), table_sizes, apis.cluster_domain())?;
    let http = http.options(families, String::new(), services.service_metrics);
    let shown: [(&str, &dyn Debug); 34] = [
        ("events", &events),
        ("cluster", &cluster),
        ("consul", &consul.open(watch::channel(None).1)?),
        ("socket", &socket),
        ("socket limits", &socket_limits.limits()?),
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
    let shown = shown.map(|(name, shown)| (name, format!("{shown:?}")));
    let mut settings = Settings::from(shown);
    settings.insert("timeouts", format!("{:?}", options.timeouts));
    settings.insert("pins", format!("{:?}", options.pin_dir));
    Ok(settings)
}

/// A folder with files that flags name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("consul.toml", ""),
        ("token", "0123456789abcdef\n"),
        ("tokens", "dc2 0123456789abcdef\n"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::create_dir(folder.path().join("services")).unwrap();
    folder
}

/// The words of a row.
fn words(text: &str, folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let mut text = text.to_owned();
    for (short, long) in SHORT {
        text = text.replace(short, long);
    }
    let words = text.split_whitespace();
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
            let settings = runtime.block_on(settings(&words, folder.path()))?;
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
