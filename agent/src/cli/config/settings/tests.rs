use std::{env, fs, path::PathBuf, process};

use clap::{Args as _, Command, FromArgMatches as _};
use serde_json::Value;
use shunt_datapath::Families;

use super::*;
use crate::cli::{
    agent::args::AgentArgs,
    config::{file::testing::KUBEADM, table::Takes},
    flags::switch::Switch,
};

fn flags(arguments: &[&str]) -> Result<KubeProxyFlags, clap::Error> {
    let command = AgentArgs::augment_args(Command::new("agent"));
    let matches = command.try_get_matches_from([&["agent"], arguments].concat())?;
    KubeProxyFlags::from_arg_matches(&matches)
}

fn of_flags(arguments: &[&str]) -> Result<KubeProxySettings, String> {
    let flags = flags(arguments).map_err(|error| error.to_string())?;
    KubeProxySettings::of(&flags).map_err(|error| format!("{error:#}"))
}

/// Returns the settings of a file, with these flags beside it.
fn of_file(name: &str, text: &str, beside: &[&str]) -> Result<KubeProxySettings, String> {
    let file: PathBuf = env::temp_dir().join(format!("shunt-config-{}-{name}", process::id()));
    fs::write(&file, text).unwrap();
    let settings = of_flags(&[&["--config", file.to_str().unwrap()], beside].concat());
    fs::remove_file(&file).unwrap();
    settings
}

fn head(text: &str) -> String {
    format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{text}")
}

#[test]
fn every_flag_of_kube_proxy_is_understood() {
    for setting in SETTINGS.iter().filter(|setting| !setting.flag.is_empty()) {
        let value = match (setting.flag, setting.takes) {
            ("detect-local-mode", _) => "NodeCIDR",
            ("cluster-cidr", _) | (_, Takes::List) => "10.0.0.0/8",
            (_, Takes::Switch) => "true",
            (_, Takes::Number | Takes::Decimal) => "7",
            (_, Takes::Gates) => "A=true,B=false",
            (flag, Takes::Text) if flag.ends_with("bind-address") => "127.0.0.1",
            (_, Takes::Text) => "30s",
        };
        let given = format!("--{}={value}", setting.flag);
        let found =
            flags(&["--kubernetes", &given]).unwrap_or_else(|error| panic!("{given}: {error}"));
        let names: Vec<_> = found.given.iter().map(|(given, _)| given.flag).collect();
        assert_eq!(names, [setting.flag], "{given}");
    }
}

#[test]
fn a_flag_without_effect_is_said_and_one_that_cannot_be_is_refused() {
    let settings = of_flags(&[
        "--proxy-mode",
        "ipvs",
        "--ipvs-strict-arp",
        "--iptables-sync-period=1m",
        "--config-sync-period=15m0s",
        "--v=2",
        "--profiling=false",
        "--healthz-port=0",
    ])
    .unwrap();
    let starts = [
        "--healthz-port has no effect: ",
        "--proxy-mode has no effect: ",
        "--iptables-sync-period has no effect: ",
        "--ipvs-strict-arp has no effect: ",
    ];
    let warnings = &settings.warnings;
    assert_eq!(warnings.len(), starts.len(), "{warnings:?}");
    for (warning, start) in warnings.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning}");
    }
    for (given, words) in [
        ("--cleanup", "--cleanup: `shunt cleanup`"),
        ("--init-only=true", "--init-only: "),
        ("--write-config-to=/tmp/x", "--write-config-to: "),
        ("--oom-score-adj=-2000", "oomScoreAdj: must be within"),
        ("--ipvs-strict-arp=perhaps", "--ipvs-strict-arp: `perhaps`"),
        ("--conntrack-min=many", "--conntrack-min: `many`"),
        ("--proxy-mode=userspace", "mode: must be"),
    ] {
        let error = of_flags(&[given]).unwrap_err();
        assert!(error.contains(words), "{given}: {error}");
    }
    assert_eq!(of_flags(&["--cleanup=false"]).unwrap().warnings, [""; 0]);
}

#[test]
fn without_kube_proxys_words_nothing_changes() {
    assert_eq!(of_flags(&[]), Ok(KubeProxySettings::default()));
}

#[test]
fn a_file_puts_the_agent_in_kube_proxys_place() {
    let settings = of_file("kubeadm", KUBEADM, &[]).unwrap();
    assert_eq!(settings.health, Some(HEALTH));
    assert_eq!(settings.metrics, Some(METRICS));
    assert_eq!(settings.oom_score, Some(-999));
    assert_eq!(settings.netfilter.tcp_established, Some(86_400));
    assert_eq!(settings.netfilter.tcp_close_wait, Some(3600));
    assert_eq!(settings.netfilter.udp, None);
    let names: Vec<_> = settings
        .warnings
        .iter()
        .map(|warning| warning.split_once(' ').unwrap().0)
        .collect();
    assert_eq!(names, [""; 0]);
    let pods = DetectLocalArgs::configured("", "10.244.0.0/16", Some(String::new()), None);
    let flags = DetectLocalArgs::configured("NodeCIDR", "", None, None).unwrap();
    let found = settings.detect_local(flags).unwrap();
    let both = Families {
        ipv4: true,
        ipv6: true,
    };
    let ranges = |args: DetectLocalArgs| args.detection(&[], false, both).unwrap().cluster_cidrs;
    assert_eq!(ranges(found.clone()), ["10.244.0.0/16".parse().unwrap()]);
    assert_eq!(ranges(found), ranges(pods.unwrap()));
}

#[test]
fn a_file_says_where_and_how_long() {
    let text = head(
        "bindAddress: '::'\nmetricsBindAddress: 127.0.0.1\nbindAddressHardFail: true\n\
         oomScoreAdj: 0\nconntrack:\n  tcpEstablishedTimeout: 2h\n  tcpCloseWaitTimeout: 0s\n  \
         udpTimeout: 90s\n  tcpBeLiberal: true\nlogging:\n  verbosity: 6\n",
    );
    let settings = of_file("where", &text, &[]).unwrap();
    assert_eq!(settings.health, Some("[::]:10256".parse().unwrap()));
    assert_eq!(settings.metrics, Some("127.0.0.1:10249".parse().unwrap()));
    assert!(settings.hard_fail && settings.is_verbose);
    assert_eq!(settings.oom_score, Some(0));
    let timeouts = settings.timeouts(Timeouts::default());
    assert_eq!((timeouts.tcp_established, timeouts.udp), (7200, 90));
    assert_eq!(timeouts.tcp_closing, Timeouts::default().tcp_closing);
    let expected = NetfilterConntrack {
        tcp_established: Some(7200),
        tcp_close_wait: None,
        udp: Some(90),
        udp_stream: None,
        tcp_be_liberal: true,
        max: conntrack_max(&Conntrack::default(), true, processors()),
    };
    assert_eq!(settings.netfilter, expected);
}

#[test]
fn a_field_that_is_not_known_is_a_warning() {
    let text = head("conntrack:\n  maxPerCores: 1\n  udpTimeout: 90s\n");
    let settings = of_file("unknown", &text, &[]).unwrap();
    assert_eq!(settings.udp, Some(90));
    assert_eq!(settings.unknown, ["conntrack.maxPerCores"]);
    assert_eq!(
        settings.warnings,
        ["conntrack.maxPerCores has no effect: this version knows no such field"]
    );
}

#[test]
fn the_kernel_tracks_as_many_connections_as_with_kube_proxy() {
    let of = |max_per_core, min| Conntrack {
        max_per_core,
        min,
        ..Conntrack::default()
    };
    for (conntrack, from_file, processors, expected) in [
        (of(None, None), true, 2, Some(131_072)),
        (of(None, None), true, 64, Some(2_097_152)),
        (of(Some(1000), Some(0)), true, 2, Some(2000)),
        (of(Some(1000), Some(5000)), false, 2, Some(5000)),
        (of(Some(0), None), true, 64, None),
        (of(None, None), false, 64, None),
        (of(Some(i32::MAX), None), true, 64, Some(u32::MAX)),
    ] {
        let found = conntrack_max(&conntrack, from_file, processors);
        assert_eq!(found, expected, "{conntrack:?} {from_file} {processors}");
    }
}

#[test]
fn flags_beside_a_file_are_ignored_but_those_that_count_with_kube_proxy() {
    let beside = [
        "--healthz-bind-address=0.0.0.0:1",
        "--conntrack-udp-timeout=7s",
        "--masquerade-all",
        "--v=5",
    ];
    let settings = of_file("beside", &head("mode: ''\n"), &beside).unwrap();
    assert_eq!(settings.health, Some(HEALTH));
    assert!(settings.is_verbose);
    let mut ignored: Vec<_> = settings
        .warnings
        .iter()
        .map(|warning| {
            warning
                .split_once(" has no effect beside --config")
                .unwrap()
                .0
        })
        .collect();
    ignored.sort_unstable();
    assert_eq!(
        ignored,
        [
            "--conntrack-udp-timeout",
            "--healthz-bind-address",
            "--masquerade-all"
        ]
    );
}

#[test]
fn the_metrics_address_of_the_command_line_counts_beside_a_file() {
    let flag = ["--metrics-bind-address=0.0.0.0:10249"];
    let settings = of_file("metrics", KUBEADM, &flag).unwrap();
    assert_eq!(
        settings.warnings,
        of_file("metrics", KUBEADM, &[]).unwrap().warnings
    );
    let given = HttpArgs {
        healthz: None,
        metrics: Some(BindAddress(Some("0.0.0.0:10249".parse().unwrap()))),
        probes: None,
        hard_fail: Switch::default(),
    };
    assert_eq!(settings.http(&given, true).metrics, given.metrics);
    let off = HttpArgs {
        metrics: Some(BindAddress(None)),
        ..given
    };
    assert_eq!(settings.http(&off, true).metrics, off.metrics);
}

#[test]
fn an_error_names_the_file() {
    let error = of_file("wrong", &head("mode: winkernel\n"), &[]).unwrap_err();
    assert!(
        error.starts_with("--config ") && error.contains("mode: must be"),
        "{error}"
    );
    let error = of_flags(&["--config", "/nowhere"]).unwrap_err();
    assert!(
        error.contains("--config /nowhere: cannot read it"),
        "{error}"
    );
}

#[test]
fn configz_shows_what_is_in_effect() {
    let settings = of_file("configz", KUBEADM, &[]).unwrap();
    let nothing = HttpArgs {
        healthz: None,
        metrics: None,
        probes: None,
        hard_fail: Switch::default(),
    };
    let http = settings.http(&nothing, true);
    let of_flags = KubeProxySettings::default();
    assert_eq!(of_flags.http(&nothing, false).healthz, None);
    let by_default = of_flags.http(&nothing, true);
    assert_eq!(by_default.healthz, Some(BindAddress(Some(HEALTH))));
    assert_eq!(by_default.metrics, Some(BindAddress(Some(METRICS))));
    let shown = settings.configz(&http, settings.timeouts(Timeouts::default()));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let shown = &shown["kubeproxy.config.k8s.io"];
    assert_eq!(shown["apiVersion"], API_VERSION);
    assert_eq!(shown["mode"], "shunt");
    assert_eq!(shown["healthzBindAddress"], "0.0.0.0:10256");
    assert_eq!(shown["oomScoreAdj"], -999);
    assert_eq!(shown["clusterCIDR"], "10.244.0.0/16");
    assert_eq!(shown["clientConnection"], Value::Null, "it has no effect");
    let understood: Result<KubeProxyConfiguration, _> = serde_json::from_value(shown.clone());
    understood.unwrap();
}

#[test]
fn masquerading_is_asked_for_in_the_section_of_the_mode() {
    for (mode, iptables, nftables, asked) in [
        ("", true, false, true),
        ("ipvs", true, false, true),
        ("nftables", true, false, false),
        ("nftables", false, true, true),
        ("iptables", false, true, false),
    ] {
        let text = head(&format!(
            "mode: \"{mode}\"\niptables:\n  masqueradeAll: {iptables}\nnftables:\n  \
             masqueradeAll: {nftables}\n"
        ));
        let settings = of_file(&format!("masquerade-{mode}-{asked}"), &text, &[]).unwrap();
        assert_eq!(settings.masquerade_all(!asked), asked, "{text}");
    }
    let settings = of_flags(&["--masquerade-all"]).unwrap();
    assert!(settings.masquerade_all(true) && !settings.masquerade_all(false));
}

#[test]
fn node_ports_are_at_loopback_addresses_as_the_modes_section_says() {
    for (text, flag, expected) in [
        ("iptables:\n  localhostNodePorts: false\n", true, false),
        (
            "mode: iptables\niptables:\n  localhostNodePorts: true\n",
            true,
            true,
        ),
        (
            "mode: nftables\niptables:\n  localhostNodePorts: false\n",
            true,
            true,
        ),
        ("mode: iptables\n", true, true),
    ] {
        let settings = of_file(&format!("loopback-{expected}"), &head(text), &[]).unwrap();
        assert_eq!(settings.localhost_node_ports(flag), expected, "{text}");
    }
    let settings = of_flags(&["--iptables-localhost-nodeports=false"]).unwrap();
    assert!(!settings.localhost_node_ports(false));
}

#[test]
fn what_is_said_of_the_node_and_of_gates_counts() {
    let beside = |node_ip: Option<&str>, ignores_external_ips| Beside {
        node_ip: node_ip.map(|text| text.parse().unwrap()),
        ignores_external_ips,
    };
    for (arguments, expected) in [
        (&[][..], beside(None, false)),
        (&["--bind-address=0.0.0.0"], beside(None, false)),
        (
            &["--bind-address=192.0.2.9"],
            beside(Some("192.0.2.9"), false),
        ),
        (
            &["--feature-gates=AllowServiceExternalIPs=true"],
            beside(None, false),
        ),
        (
            &["--feature-gates=AllowServiceExternalIPs=false"],
            beside(None, true),
        ),
    ] {
        let settings = of_flags(arguments).unwrap();
        assert_eq!(settings.beside(), expected, "{arguments:?}");
        assert_eq!(settings.warnings, [""; 0], "{arguments:?}");
    }
    let text = head(
        "bindAddress: '2001:db8::9'\nfeatureGates:\n  AllowServiceExternalIPs: true\n  Other: true\n",
    );
    // Of gates, a flag beats the file.
    let flags = ["--feature-gates=AllowServiceExternalIPs=false"];
    let settings = of_file("gates", &text, &flags).unwrap();
    assert_eq!(settings.beside(), beside(Some("2001:db8::9"), true));
    let [warning] = &settings.warnings[..] else {
        panic!("one warning, not {:?}", settings.warnings);
    };
    assert!(
        warning.starts_with("the feature gate Other has no effect"),
        "{warning}"
    );
}
