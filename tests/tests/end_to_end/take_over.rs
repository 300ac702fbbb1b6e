//! Taking over from kube-proxy: its connections live on, new ones are Shunt's, and its rules are removed.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_tests::{
    Connection, Continuous, Namespace, PinDir, Sandbox, Target, Transport, addresses, has_program,
    has_root,
    rulesets::{self, iptables, nftables},
    wait_until,
};

use crate::{
    service::Service,
    world::{REQUEST, SERVED, Unattended, World, binary, resync_with},
};

/// Writes rules that are not nftables'.
const LEGACY: &str = "iptables-legacy-restore";

/// Number of connections that are open when Shunt comes.
const OPEN: usize = 20;

/// Time for what must not take long.
const SOON: Duration = Duration::from_secs(10);

/// Time that a command may wait that has nothing to wait for.
const MOMENT: Duration = Duration::from_secs(2);

/// The service of [`Service`], as kube-proxy has it.
pub(crate) fn rules_service(transport: Transport, backends: &[SocketAddr]) -> rulesets::Service {
    let v4 = |address: &SocketAddr| match address {
        SocketAddr::V4(v4) => *v4,
        SocketAddr::V6(v6) => panic!("{v6} is of another family"),
    };
    rulesets::Service {
        name: "web".to_owned(),
        protocol: transport,
        cluster_ip: Ipv4Addr::new(10, 96, 0, 10),
        port: 80,
        node_port: Some(30080),
        endpoints: backends.iter().map(v4).collect::<Vec<SocketAddrV4>>(),
    }
}

pub(crate) fn rules_node() -> rulesets::Node {
    let std::net::IpAddr::V4(address) = addresses::NODE else {
        unreachable!("it is of IPv4");
    };
    rulesets::Node {
        address,
        pod_cidr: "10.1.0.0/16".to_owned(),
        service_cidr: "10.96.0.0/16".to_owned(),
    }
}

/// A node with kube-proxy's rules for a service of three pods, one of them elsewhere.
pub(crate) struct Before {
    pub(crate) sandbox: Sandbox,
    pub(crate) service: Service,
}

impl Before {
    /// Skips the test without root or the tool.
    pub(crate) fn new(transport: Transport, tool: &str) -> Option<Self> {
        if !has_root() || !has_program(tool) {
            return None;
        }
        let mut sandbox = Sandbox::new().unwrap();
        let pods = ["pod-a", "pod-b", "pod-d"];
        for pod in pods {
            sandbox.serve(pod, &[SERVED]).unwrap();
        }
        let backends = pods.map(|pod| sandbox.pod(pod).at(SERVED));
        let services = [rules_service(transport, &backends)];
        let (arguments, rules) = if tool == "nft" {
            (&["-f", "-"][..], nftables::load(&rules_node(), &services))
        } else {
            (
                &["--noflush", "--counters"][..],
                iptables::load(&rules_node(), &services),
            )
        };
        sandbox
            .node()
            .run_with_input(tool, arguments, &rules)
            .unwrap();
        let service = backends
            .into_iter()
            .fold(Service::new(transport), Service::backend);
        Some(Self { sandbox, service })
    }

    /// Shunt comes.
    pub(crate) fn world(self, flags: &[&str]) -> (World, Service) {
        let Self { sandbox, service } = self;
        let pins = PinDir::new();
        let mut world = Unattended { pins, sandbox }.start(flags);
        world.apply(&resync_with(&[service.json()]));
        (world, service)
    }
}

/// Connections from inside and from outside.
pub(crate) struct Open(Vec<Connection>);

impl Open {
    pub(crate) fn new(before: &Before) -> Self {
        let open = |from: &Namespace, target: Target| {
            from.enter(|| {
                (0..OPEN)
                    .map(|_| target.connect().unwrap())
                    .collect::<Vec<_>>()
            })
        };
        let pod = before.sandbox.pod("pod-c").namespace();
        let mut all = open(pod, before.service.cluster_ip());
        all.extend(open(before.sandbox.outside(), before.service.node_port()));
        let mut open = Self(all);
        open.check();
        open
    }

    /// Bytes flow on each of them, both ways.
    pub(crate) fn check(&mut self) {
        for (number, connection) in self.0.iter_mut().enumerate() {
            for length in [REQUEST, 20_000] {
                if let Err(error) = connection.echo(length) {
                    panic!("connection {number} of {OPEN} from each side: {error}");
                }
            }
        }
    }
}

fn status(world: &World) -> Value {
    world.shunt(&["status", "-o", "json"]).json()
}

/// Waits until the status of taking over is right.
#[track_caller]
fn await_take_over(world: &World, is_right: impl Fn(&Value) -> bool) -> Value {
    let patience = Duration::from_secs(30);
    let found = wait_until("the status of taking over is right", patience, || {
        let take_over = status(world)["take_over"].clone();
        is_right(&take_over).then_some(take_over)
    });
    found.unwrap_or_else(|error| panic!("{error}: {:#}", status(world)["take_over"]))
}

fn counted(world: &World, counter: &str) -> u64 {
    let status = status(world);
    status["counters"][counter].as_u64().unwrap_or(0)
}

/// All of the traffic was answered.
pub(crate) fn all_well(traffic: Continuous, who: &str) {
    let samples = traffic.stop().unwrap();
    assert!(samples.len() > 50, "{}", samples.len());
    let failed: Vec<_> = samples
        .iter()
        .filter_map(|sample| sample.outcome.as_ref().err())
        .collect();
    assert!(
        failed.is_empty(),
        "of {} connections from {who} failed {}: {failed:?}",
        samples.len(),
        failed.len()
    );
}

fn is_taken_over(tool: &str) {
    let Some(before) = Before::new(Transport::Tcp, tool) else {
        return;
    };
    let mut open = Open::new(&before);
    let inside = Continuous::start(
        before.sandbox.pod("pod-c").namespace(),
        before.service.cluster_ip(),
        REQUEST,
    );
    let outside = Continuous::start(
        before.sandbox.outside(),
        before.service.node_port(),
        REQUEST,
    );
    inside.wait_for(20, SOON).unwrap();
    let (world, service) = before.world(&[]);
    let log = world.agent.log();
    assert!(log.contains("taking over"), "{log}");
    open.check();
    for traffic in [&inside, &outside] {
        traffic.wait_for(50, SOON).unwrap();
    }
    open.check();
    all_well(inside, "inside");
    all_well(outside, "outside");
    let connections = counted(&world, "connection");
    world.ask_from_pod(service.cluster_ip(), 30);
    assert!(
        counted(&world, "connection") >= connections + 30,
        "new connections are Shunt's"
    );
    // A later agent takes the same ones over.
    let unattended = world.stopped();
    open.check();
    let mut world = unattended.start(&[]);
    open.check();
    world.apply(&resync_with(&[service.json()]));
    open.check();
    assert_eq!(counted(&world, "drop_conntrack_full"), 0);
}

#[test]
fn connections_of_kube_proxys_nftables_rules_live_on_and_new_ones_are_shunts() {
    is_taken_over("nft");
}

#[test]
fn connections_of_kube_proxys_iptables_rules_live_on_and_new_ones_are_shunts() {
    is_taken_over("iptables-restore");
}

#[test]
fn connections_of_kube_proxys_legacy_iptables_rules_live_on_and_new_ones_are_shunts() {
    is_taken_over(LEGACY);
}

#[test]
fn without_taking_over_open_connections_are_lost() {
    let Some(before) = Before::new(Transport::Tcp, "nft") else {
        return;
    };
    let mut open = Open::new(&before);
    let (world, _) = before.world(&["--take-over", "off"]);
    let lost = open.0.iter_mut().filter_map(|one| one.echo(REQUEST).err());
    assert!(lost.count() > 0, "the flag is of no use");
    let take_over = &status(&world)["take_over"];
    assert_eq!(take_over["active"], false);
    assert_eq!(take_over["mode"], "off");
    assert_eq!(take_over["rules"], "nftables (ip kube-proxy)");
}

#[test]
fn udp_flows_move_to_a_backend_of_shunts_and_are_answered() {
    let Some(before) = Before::new(Transport::Udp, "nft") else {
        return;
    };
    let pod = before.sandbox.pod("pod-c").namespace();
    let target = before.service.cluster_ip();
    let flows: Vec<_> = pod.enter(|| (0..30).map(|_| target.flow().unwrap()).collect());
    let names = |flows: &[shunt_tests::Flow]| -> Vec<String> {
        let asked = flows.iter().map(|flow| flow.ask(REQUEST).unwrap().name);
        asked.collect()
    };
    let first = names(&flows);
    let (_world, _) = before.world(&[]);
    let moved = names(&flows);
    assert_ne!(first, moved, "all 30 kept their backend of 3 by chance");
    assert_eq!(names(&flows), moved, "and stay there");
}

/// `shunt cleanup --kube-proxy` on the node.
fn cleanup(node: &Namespace, further: &[&str]) -> std::process::Child {
    node.enter(|| {
        Command::new(binary())
            .args(["cleanup", "--kube-proxy"])
            .args(further)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    })
}

fn text(output: std::process::Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn tables(node: &Namespace) -> String {
    node.run_with_input("nft", &["list", "tables"], "").unwrap()
}

#[test]
fn kube_proxys_tables_are_removed_when_no_connection_goes_by_them_any_more() {
    let Some(before) = Before::new(Transport::Tcp, "nft") else {
        return;
    };
    let mut open = Open::new(&before);
    let (world, service) = before.world(&[]);
    let node = world.sandbox.node();
    let other =
        "add table ip other\nadd chain ip other c { type nat hook prerouting priority 0 ; }\n";
    node.run_with_input("nft", &["-f", "-"], other).unwrap();
    let open_connections = 2 * OPEN as u64;
    let take_over = await_take_over(&world, |take_over| {
        take_over["connections"].as_u64() >= Some(open_connections)
    });
    assert_eq!(take_over["active"], true);
    assert_eq!(take_over["mode"], "auto");
    assert_eq!(take_over["rules"], "nftables (ip kube-proxy)");
    let shown = world.shunt(&["status"]).output;
    assert!(
        shown.contains(
            "on (until kube-proxy's rules and connections are gone); rules of kube-proxy"
        ),
        "{shown}"
    );
    let mut waiting = cleanup(node, &[]);
    let since = Instant::now();
    while since.elapsed() < MOMENT {
        assert!(waiting.try_wait().unwrap().is_none(), "it must wait");
        open.check();
    }
    assert!(tables(node).contains("kube-proxy"));
    drop(open);
    let limit = Duration::from_secs(30);
    wait_until("the connections have ended", limit, || {
        waiting.try_wait().unwrap()
    })
    .unwrap();
    let said = text(waiting.wait_with_output().unwrap());
    assert!(
        said.contains(&format!("ip kube-proxy: {} connections", 2 * OPEN)),
        "{said}"
    );
    assert!(said.ends_with("removed ip kube-proxy\n"), "{said}");
    let left = tables(node);
    assert!(
        !left.contains("kube-proxy") && left.contains("other"),
        "{left}"
    );
    world.ask_from_pod(service.cluster_ip(), 30);
    let again = text(cleanup(node, &[]).wait_with_output().unwrap());
    assert_eq!(again, "nftables has no table of kube-proxy's\n");
    // Nothing is left to take over: a table of connections that is lost costs none of them.
    wait_until("the agent notices", Duration::from_secs(30), || {
        world.agent.log().contains("taken over").then_some(())
    })
    .unwrap();
    let take_over = await_take_over(&world, |take_over| take_over["active"] == false);
    assert_eq!(take_over["rules"], Value::Null);
    assert_eq!(take_over["connections"], 0);
    let shown = world.shunt(&["status"]).output;
    assert!(
        shown.contains("are gone); no rules of kube-proxy"),
        "{shown}"
    );
}

#[test]
fn with_now_the_connections_that_are_cut_are_named() {
    let Some(before) = Before::new(Transport::Tcp, "nft") else {
        return;
    };
    let _open = Open::new(&before);
    let (world, service) = before.world(&[]);
    let node = world.sandbox.node();
    let said = text(cleanup(node, &["--now"]).wait_with_output().unwrap());
    let expected = format!(
        "cut: {OPEN} connections to 10.96.0.10:80/TCP\n\
         cut: {OPEN} connections to 192.168.16.10:30080/TCP\n\
         removed ip kube-proxy\n"
    );
    assert_eq!(said, expected);
    assert!(!tables(node).contains("kube-proxy"));
    world.ask_from_pod(service.cluster_ip(), 30);
}

#[test]
fn rules_of_the_iptables_mode_are_named_and_left_to_kube_proxy() {
    for (tool, named) in [
        ("iptables-nft-restore", "chain KUBE-SERVICES of ip nat"),
        (LEGACY, "table nat of iptables-legacy"),
    ] {
        let Some(before) = Before::new(Transport::Tcp, tool) else {
            continue;
        };
        let node = before.sandbox.node();
        let output = cleanup(node, &[]).wait_with_output().unwrap();
        assert!(!output.status.success());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(named), "{tool}: {errors}");
        assert!(errors.contains("--cleanup"), "{tool}: {errors}");
    }
}

#[test]
fn what_kube_proxy_has_left_is_said_at_start() {
    let Some(before) = Before::new(Transport::Tcp, "nft") else {
        return;
    };
    let (world, _) = before.world(&[]);
    let log = world.agent.log();
    assert!(
        log.contains("rules of kube-proxy on this host: nftables (ip kube-proxy)"),
        "{log}"
    );
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(status["differences"], json!([]));
}
