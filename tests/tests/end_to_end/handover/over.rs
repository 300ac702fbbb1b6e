//! Flows whose time is over in one of the two tables.

use std::{sync::OnceLock, thread, time::Duration};

use serde_json::{Value, json};
use shunt_tests::{Answer, Flow, Namespace, Target, Transport, addresses};

use super::{OTHER_SIZE, assert_handed_over, dying_after};
use crate::{
    service::Service,
    upgrade::{end, services, snapshot, traffic},
    world::{REQUEST, Unattended, World, binary, resync_with},
};

/// Time for which a datagram that was answered is remembered, so that a flow with its ports is another one after that.
const SHORT: [&str; 4] = [
    "--conntrack-udp-timeout",
    "3s",
    "--conntrack-udp-timeout-stream",
    "3s",
];

/// Longer than that.
const OVER: Duration = Duration::from_secs(4);

/// For how long flows use ports again in a phase: of 28,000 ports one in ten has had a flow by then.
const REUSE: Duration = Duration::from_secs(10);

/// More flows than are given the same backends twice by chance.
const FLOWS: usize = 16;

/// A port below those that the kernel chooses from.
const PORT: u16 = 20_000;

fn flags() -> Vec<&'static str> {
    [&OTHER_SIZE[..], &SHORT].concat()
}

/// A UDP service of these pods without session affinity, in a world that remembers flows for a short time.
fn served_by(pods: &[&str]) -> Option<(World, Service)> {
    let mut world = World::with_flags(&SHORT)?;
    let service = pods
        .iter()
        .fold(Service::new(Transport::Udp).dual_stack(), |service, pod| {
            service
                .backend(world.backend(pod))
                .backend(world.backend_v6(pod))
        });
    let mut event: Value = serde_json::from_str(&resync_with(&[service.json()])).unwrap();
    event["node_ips"] = json!([addresses::NODE, addresses::v6(addresses::NODE)]);
    world.apply(&event.to_string());
    Some((world, service))
}

/// Starts an agent that dies after this step of its handover.
fn die_after(step: &str, unattended: &Unattended) {
    let dying = dying_after(step);
    let died = unattended.try_start_of(dying.path(), &flags());
    assert!(died.is_err(), "it dies after {step}");
}

/// Asks once from each of some ports.
fn ask(from: &Namespace, target: Target) -> Vec<Answer> {
    let ports = PORT..PORT + FLOWS as u16;
    let ask = |port| target.from_port(port).ask(REQUEST).unwrap();
    from.enter(|| ports.map(ask).collect())
}

#[test]
fn a_flow_has_the_ports_of_one_whose_time_is_over_while_tables_hand_over() {
    for step in ["swap", "drain"] {
        let Some(mut world) = World::with_flags(&SHORT) else {
            return;
        };
        let services = services(&world);
        world.apply(&snapshot(&services));
        let traffic = traffic(&world, &services);
        thread::sleep(REUSE);
        let unattended = world.killed();
        die_after(step, &unattended);
        thread::sleep(REUSE);
        let last = unattended.try_start_of(&binary(), &flags()).unwrap();
        let world = unattended.attended_by(last);
        end(&world, traffic);
    }
}

/// Requests come in by one interface then, where the new agent's program is, and answers by another one, where
/// the old agent's still is.
#[test]
fn a_flow_with_the_ports_of_one_whose_time_is_over_is_known_to_the_programs_of_both_agents() {
    let Some((world, service)) = served_by(&["pod-d"]) else {
        return;
    };
    let node_port = service.node_port();
    let targets = [
        node_port,
        node_port.to(addresses::v6(node_port.address().ip())),
    ];
    let first = targets.map(|target| ask(world.sandbox.outside(), target));
    thread::sleep(OVER);
    let unattended = world.killed();
    die_after("ingress", &unattended);
    let again = targets.map(|target| ask(unattended.sandbox.outside(), target));
    let peers = |answers: &[Vec<Answer>; 2]| -> Vec<_> {
        answers.iter().flatten().map(|answer| answer.peer).collect()
    };
    assert_eq!(peers(&first), peers(&again), "the same ports");
}

/// Without an agent only the new programs see packets after that step, and note them in their own table.
#[test]
fn a_flow_goes_on_whose_time_is_over_where_packets_are_no_longer_noted() {
    let Some((world, service)) = served_by(&["pod-a", "pod-b", "pod-d"]) else {
        return;
    };
    let pod = world.client_pod();
    let open = |target: Target| pod.enter(|| target.flow().unwrap());
    let targets = [service.cluster_ip(), service.cluster_ip_v6()];
    let flows: Vec<Flow> = (0..FLOWS).flat_map(|_| targets.map(open)).collect();
    let backends = || -> Vec<_> {
        let answers = flows.iter().map(|flow| flow.ask(REQUEST).unwrap());
        answers.map(|answer| answer.backend).collect()
    };
    let first = backends();
    let speak_while = |act: &(dyn Fn() + Sync)| {
        thread::scope(|scope| {
            let done = scope.spawn(act);
            while !done.is_finished() {
                assert_eq!(backends(), first);
            }
        });
    };
    let unattended = world.killed();
    speak_while(&|| die_after("swap", &unattended));
    speak_while(&|| thread::sleep(2 * OVER));
    let last = OnceLock::new();
    speak_while(&|| drop(last.set(unattended.try_start_of(&binary(), &flags()).unwrap())));
    assert_eq!(backends(), first);
    assert_handed_over(&unattended.pins);
}
