//! kube-proxy's configuration, given to the real agent.

use std::{env, fs, net::Ipv4Addr, path::PathBuf, process, time::Duration};

use serde_json::Value;
use shunt_tests::{PinDir, Sandbox, SocketPath, has_root, wait_until};

use crate::{
    command::{Ran, shunt, shunt_at},
    world::World,
};

/// As kubeadm writes it, in short.
const KUBEADM: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: 0.0.0.0
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
clusterCIDR: 10.244.0.0/16
conntrack:
  maxPerCore: null
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: 2h
healthzBindAddress: \"\"
iptables:
  syncPeriod: 0s
metricsBindAddress: \"\"
mode: ipvs
";

/// A file that goes with this.
pub(crate) struct Config(PathBuf);

impl Config {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let path = env::temp_dir().join(format!("shunt-{}-{name}.yaml", process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

#[test]
fn a_file_of_kubeadms_puts_the_agent_in_kube_proxys_place() {
    let config = Config::new("kubeadm", KUBEADM);
    let Some(world) = World::with_flags(&["--config", config.path()]) else {
        return;
    };
    let answer = world.get(Ipv4Addr::LOCALHOST, 10_256, "/healthz");
    assert_eq!(answer.status, 200);
    let shown = world.get(Ipv4Addr::LOCALHOST, 10_249, "/configz").body;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let shown = &shown["kubeproxy.config.k8s.io"];
    assert_eq!(shown["kind"], "KubeProxyConfiguration");
    assert_eq!(shown["mode"], "shunt");
    assert_eq!(shown["metricsBindAddress"], "127.0.0.1:10249");
    assert_eq!(shown["conntrack"]["tcpEstablishedTimeout"], "2h0m0s");

    let log = world.agent.log();
    assert!(log.contains("mode has no effect: "), "{log}");
    for field in ["iptables.syncPeriod", "conntrack.maxPerCore"] {
        assert!(!log.contains(field), "{field} says nothing\n{log}");
    }
    let score = fs::read_to_string(format!("/proc/{}/oom_score_adj", world.agent.pid()));
    // Not every machine lets its root lower it.
    let is_set = score.unwrap().trim() == "-999";
    assert!(
        is_set || log.contains("oom_score_adj cannot be set to -999"),
        "{log}"
    );
    let node = world.sandbox.node();
    for (setting, seconds) in [("established", "7200"), ("close_wait", "3600")] {
        let path = format!("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_{setting}");
        // A kernel without connection tracking has nothing to set.
        let set = node.enter(|| fs::read_to_string(&path));
        assert!(
            set.is_err() || set.is_ok_and(|set| set.trim() == seconds),
            "{path}"
        );
    }
}

#[test]
fn an_unknown_field_is_an_error_for_a_check_and_a_warning_for_an_agent() {
    let known = Config::new("known", KUBEADM);
    let config = Config::new("later", &format!("{KUBEADM}laterField: 1\n"));
    let Some(world) = World::with_flags(&["--config", config.path()]) else {
        return;
    };
    let log = world.agent.log();
    assert!(log.contains("laterField"), "{log}");
    let ran = shunt(&["config", "check", known.path()], "");
    assert_eq!(ran.status, 0, "{}", ran.errors);
    let ran = shunt(&["config", "check", config.path()], "");
    assert_eq!(ran.status, 1);
    assert!(ran.errors.contains("laterField"), "{}", ran.errors);
}

/// Returns the result of an agent that is not to start with these flags.
fn refused(sandbox: &Sandbox, flags: &[&str]) -> Ran {
    let pins = PinDir::new();
    let socket = SocketPath::new();
    let flags = [
        &["agent", "--pin-dir", pins.path().to_str().unwrap()][..],
        &["--socket-lb", "off"],
        flags,
    ]
    .concat();
    let ran = sandbox.node().enter(|| shunt_at(socket.path(), &flags, ""));
    assert!(!pins.path().exists(), "it must not have begun");
    ran
}

#[test]
fn a_file_that_is_wrong_is_refused_with_field_and_line() {
    if !has_root() {
        return;
    }
    let sandbox = Sandbox::new().unwrap();
    for (name, text, words) in [
        (
            "nested",
            "conntrack:\n  maxPerCore: many\n",
            &["conntrack.maxPerCore", "line 4"][..],
        ),
        (
            "twice",
            "mode: iptables\nmode: ipvs\n",
            &["mode", "duplicate", "line 4"],
        ),
        (
            "value",
            "oomScoreAdj: -2000\n",
            &["oomScoreAdj: must be within -1000 and 1000"],
        ),
        (
            "kind",
            "portRange: 7\nhostnameOverride: [a]\n",
            &["hostnameOverride", "line 4"],
        ),
    ] {
        let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
        let config = Config::new(name, &format!("{head}{text}"));
        let ran = refused(&sandbox, &["--config", config.path()]);
        assert_eq!(ran.status, 1, "{ran:?}");
        let start = format!("error: --config {}: ", config.path());
        assert!(ran.errors.starts_with(&start), "{}", ran.errors);
        for word in words {
            assert!(
                ran.errors.contains(word),
                "{word} is missing in {}",
                ran.errors
            );
        }
    }
    let config = Config::new("other", "apiVersion: v1\nkind: ConfigMap\n");
    let ran = refused(&sandbox, &["--config", config.path()]);
    assert!(
        ran.errors.contains("its apiVersion is `v1`"),
        "{}",
        ran.errors
    );
    let ran = refused(&sandbox, &["--init-only"]);
    assert!(
        ran.errors.starts_with("error: --init-only: "),
        "{}",
        ran.errors
    );
    let ran = refused(&sandbox, &["--conntrack-min=many"]);
    assert_eq!(ran.status, 2, "{ran:?}");
    assert!(
        ran.errors.contains("--conntrack-min: `many`"),
        "{}",
        ran.errors
    );
}

#[test]
fn flags_of_kube_proxy_are_taken_and_those_without_effect_named() {
    let flags = [
        "--proxy-mode=iptables",
        "--iptables-sync-period",
        "10s",
        "--metrics-bind-address=127.0.0.1:9999",
        "--v=1",
    ];
    let Some(world) = World::with_flags(&flags) else {
        return;
    };
    assert_eq!(world.get(Ipv4Addr::LOCALHOST, 9999, "/healthz").body, "ok");
    let log = || world.agent.log();
    for flag in ["--proxy-mode", "--iptables-sync-period"] {
        let said = format!("{flag} has no effect: ");
        wait_until(&said, Duration::from_secs(5), || {
            log().contains(&said).then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", log()));
    }
    assert!(!log().contains("--v has"), "{}", log());
}
