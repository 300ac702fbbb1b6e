//! Programs as TCX links and as filters of the clsact qdisc, and agents that change hooks over from one to the other.

use std::{net::SocketAddr, path::Path, time::Duration};

use nix::net::if_::if_nametoindex;
use serde_json::{Value, json};
use shunt_tests::{
    Continuous, Failure, Namespace, PinDir, Sandbox, Target, Transport, add_dropping_filter,
    addresses, run,
};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    flows::Flows,
    handover::dying_after,
    interfaces::has_tcx,
    pinned,
    service::Service,
    upgrade::{end, requests, services, snapshot, some, traffic},
    world::{REQUEST, Unattended, World, all_answered, binary, resync_with},
};

const TCX: [&str; 2] = ["--attach", "tcx"];
const CLSACT: [&str; 2] = ["--attach", "clsact"];

/// Patience of a client whose packets are dropped.
const BRIEF: Duration = Duration::from_millis(300);

/// The interfaces that have the programs.
const INTERFACES: [&str; 5] = ["eth0", "eth1", "pod-a", "pod-b", "pod-c"];

/// Returns the number of pinned links, and of notes of filters.
fn kinds(pins: &PinDir) -> (usize, usize) {
    let links = pinned::links(pins);
    let notes = links.values().filter(|(link, _)| *link == 0).count();
    (links.len() - notes, notes)
}

/// Returns the number of our filters at the interfaces, both hooks of each.
fn filters(sandbox: &Sandbox) -> usize {
    let hooks = INTERFACES.map(|interface| ["ingress", "egress"].map(|hook| (interface, hook)));
    let is_there = |(interface, hook): &(&str, &str)| {
        let shown = ["filter", "show", "dev", interface, hook];
        let filters = sandbox.node().run_with_input("tc", &shown, "").unwrap();
        filters.contains("handle 0x5348554e")
    };
    hooks.into_iter().flatten().filter(is_there).count()
}

/// Checks that all hooks are attached in the way of these flags, and only so.
#[track_caller]
fn assert_attached(world: &World, flags: [&str; 2]) {
    let (links, notes) = if flags == TCX { (10, 0) } else { (0, 10) };
    let log = world.agent.log();
    assert_eq!(kinds(&world.pins), (links, notes), "{flags:?}\n{log}");
    assert_eq!(filters(&world.sandbox), notes, "{flags:?}\n{log}");
}

#[test]
fn hooks_change_over_from_links_to_filters_and_back_under_traffic() {
    if !has_tcx() {
        return;
    }
    let Some(mut world) = World::with_flags(&TCX) else {
        return;
    };
    let services = services(&world);
    world.apply(&snapshot(&services));
    assert_attached(&world, TCX);
    let mut flows = Flows::open(&world.sandbox, &services);
    let mut traffic = traffic(&world, &services);
    traffic.extend(services.iter().flat_map(|service| {
        [
            (world.client_pod(), service.cluster_ip_v6()),
            (world.sandbox.outside(), service.external_ip_v6()),
        ]
        .map(|(from, target)| Continuous::start(from, target, REQUEST))
    }));
    for (round, flags) in [CLSACT, TCX].into_iter().enumerate() {
        some(&traffic);
        let unattended = if round == 0 {
            world.killed()
        } else {
            world.stopped()
        };
        world = unattended.start(&flags);
        assert_attached(&world, flags);
        flows.check();
        some(&traffic);
        let writes = world.writes(&snapshot(&services));
        assert_eq!(writes, 0, "everything was right already");
        assert_attached(&world, flags);
    }
    end(&world, traffic);
}

/// The port at this node of a service that is the backend of another one.
const INNER: u16 = 30_081;

/// Two services of both families: the backend of the first is the second one's port at this node, where nothing listens. A
/// packet that two programs translate reaches the second one's backend.
struct Chain {
    snapshot: String,
    outer: Service,
}

impl Chain {
    fn new(world: &World) -> Self {
        let at_node = |family: Family| SocketAddr::new(family.of(addresses::NODE), INNER);
        let outer = Family::BOTH.map(at_node).into_iter();
        let outer = outer.fold(Service::new(Transport::Tcp).dual_stack(), Service::backend);
        let mut inner = service(world, Transport::Tcp, &["pod-a"]).json();
        inner["id"]["name"] = "inner".into();
        let cluster_ip = "10.96.0.11".parse().unwrap();
        inner["cluster_ips"] = json!(Family::BOTH.map(|family| family.of(cluster_ip)));
        inner["external_ips"] = json!([]);
        inner["ports"]["main"]["node_port"] = INNER.into();
        let mut event: Value = serde_json::from_str(&resync_with(&[outer.json(), inner])).unwrap();
        let nodes = Family::BOTH.map(|family| family.of(addresses::NODE));
        event["node_ips"] = json!(nodes);
        Self {
            snapshot: event.to_string(),
            outer,
        }
    }

    /// Checks that packets are translated, and each once.
    #[track_caller]
    fn check(&self, sandbox: &Sandbox, what: &str) {
        let pod = sandbox.pod("pod-c").namespace();
        for family in Family::BOTH {
            let outer = family.target(self.outer.cluster_ip());
            let inner = SocketAddr::new(family.of(addresses::NODE), INNER);
            all_answered(pod, Target::new(Transport::Tcp, inner), 5);
            for _ in 0..5 {
                let outcome = pod.enter(|| outer.ask(REQUEST));
                assert!(
                    matches!(outcome, Err(Failure::Refused)),
                    "{what}: the host itself refuses {outer:?}, but {outcome:?}"
                );
            }
        }
    }
}

impl Chain {
    /// Checks that [`Self::check`] would notice a second translation: with the programs at two places of their hooks.
    fn check_notices(&self, world: &World) {
        let tc = |command: &str| {
            let arguments: Vec<_> = command.split(' ').collect();
            let node = world.sandbox.node();
            node.run_with_input("tc", &arguments, "").unwrap();
        };
        let programs = world.pins.path().join("programs");
        tc("qdisc add dev pod-c clsact");
        for hook in ["ingress", "egress"] {
            let program = programs.join(format!("tc_{hook}"));
            tc(&format!(
                "filter add dev pod-c {hook} bpf direct-action object-pinned {}",
                program.display()
            ));
        }
        for family in Family::BOTH {
            let outer = family.target(self.outer.cluster_ip());
            all_answered(world.client_pod(), outer, 3);
        }
        tc("qdisc del dev pod-c clsact");
    }
}

/// Has an agent die after a step of a change-over to the way of these flags.
#[track_caller]
fn dies(unattended: &Unattended, flags: [&str; 2], step: &str) {
    let died = unattended.try_start_of(dying_after(step).path(), &flags);
    assert!(died.is_err(), "it dies after {step}");
}

#[test]
fn each_packet_is_translated_once_whenever_an_agent_dies_while_hooks_change_over() {
    if !has_tcx() {
        return;
    }
    let Some(mut world) = world_with_flags(&TCX) else {
        return;
    };
    let chain = Chain::new(&world);
    world.apply(&chain.snapshot);
    chain.check(&world.sandbox, "before");
    chain.check_notices(&world);
    // The way of the hooks, the way that they change to, the last step of the agent, and the next agent's way.
    for (from, to, step, then) in [
        (TCX, CLSACT, "beside", TCX),
        (TCX, CLSACT, "exchange", CLSACT),
        (CLSACT, TCX, "beside", TCX),
    ] {
        assert_attached(&world, from);
        let unattended = world.killed();
        dies(&unattended, to, step);
        let what = format!("from {from:?} to {to:?}, dead after {step}");
        chain.check(&unattended.sandbox, &what);
        world = unattended.start(&then);
        assert_attached(&world, then);
        chain.check(&world.sandbox, &format!("{what}, then {then:?}"));
        assert_eq!(world.writes(&chain.snapshot), 0, "{what}");
    }
}

#[test]
fn cleanup_removes_the_link_and_the_filter_of_a_hook_that_has_both() {
    if !has_tcx() {
        return;
    }
    let Some(mut world) = world_with_flags(&TCX) else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    let unattended = world.killed();
    dies(&unattended, CLSACT, "beside");
    assert_eq!(kinds(&unattended.pins), (10, 1));
    let Unattended { pins, sandbox } = unattended;
    assert_eq!(filters(&sandbox), 1);
    let path = pins.path().to_str().unwrap();
    let removed = run(binary().to_str().unwrap(), &["cleanup", "--pin-dir", path]).unwrap();
    assert!(removed.contains("11 links"), "{removed}");
    assert!(!pins.path().exists());
    assert_eq!(filters(&sandbox), 0);
    for family in Family::BOTH {
        let target = family.target(service.cluster_ip()).within(BRIEF);
        let pod = sandbox.pod("pod-c").namespace();
        let outcome = pod.enter(|| target.ask(REQUEST));
        assert!(outcome.is_err(), "nothing translates, but {outcome:?}");
    }
}

/// Has a filter behind ours send what has `address` in this field into the loopback device, where the packets are nobody's.
fn divert(node: &Namespace, hook: &str, family: Family, field: &str, address: &str) {
    let (protocol, key, length) = match family {
        Family::V4 => ("ip", "ip", 32),
        Family::V6 => ("ipv6", "ip6", 128),
    };
    let command = format!(
        "filter add dev pod-c {hook} pref 100 protocol {protocol} u32 match {key} {field} {address}/{length} \
         action mirred egress redirect dev lo"
    );
    let arguments: Vec<_> = command.split(' ').collect();
    node.run_with_input("tc", &arguments, "").unwrap();
}

fn remove_filter(node: &Namespace, hook: &str, priority: &str, more: &[&str]) {
    let arguments = ["filter", "del", "dev", "pod-c", hook, "pref", priority];
    let arguments = [&arguments[..], more].concat();
    node.run_with_input("tc", &arguments, "").unwrap();
}

#[test]
fn a_filter_behind_ours_sees_translated_packets_and_one_before_ours_sees_them_first() {
    let Some(mut world) = world_with_flags(&CLSACT) else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    let node = world.sandbox.node();
    for family in Family::BOTH {
        let target = family.target(service.cluster_ip());
        let frontend = target.address().ip().to_string();
        let backend = family.backend(&world, "pod-a").ip().to_string();
        for (hook, field, before, after) in [
            ("ingress", "dst", &frontend, &backend),
            ("egress", "src", &backend, &frontend),
        ] {
            divert(node, hook, family, field, before);
            world.ask_from_pod(target, 3);
            remove_filter(node, hook, "100", &[]);
            divert(node, hook, family, field, after);
            let outcome = world
                .client_pod()
                .enter(|| target.within(BRIEF).ask(REQUEST));
            assert!(
                matches!(outcome, Err(Failure::TimedOut)),
                "{hook}: it sees {after}, but {outcome:?}"
            );
            remove_filter(node, hook, "100", &[]);
            world.ask_from_pod(target, 3);
        }
        // One of our priority that is added later runs before ours.
        for (priority, is_first) in [("1", true), ("2", false)] {
            let path = Path::new("/sys/fs/bpf");
            let index = world.client_pod().enter(|| if_nametoindex("eth0").unwrap());
            let path = path.join(format!("dropping-{}-{index}", world.agent.pid()));
            add_dropping_filter(node, ("pod-c", "ingress"), priority, &path).unwrap();
            let requests_before = requests(&world);
            let outcome = world
                .client_pod()
                .enter(|| target.within(BRIEF).ask(REQUEST));
            assert!(matches!(outcome, Err(Failure::TimedOut)), "{outcome:?}");
            assert_eq!(
                requests(&world) == requests_before,
                is_first,
                "a filter of priority {priority} is the first to see a packet: {is_first}"
            );
            remove_filter(node, "ingress", priority, &["handle", "1", "bpf"]);
            world.ask_from_pod(target, 3);
        }
    }
}
