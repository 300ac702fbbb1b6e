//! Consul's limit of connections, and more services than there may be connections.

use std::{net::TcpStream, thread, time::Duration};

use shunt_tests::{addresses, wait_until};

use crate::world::{Plan, SOON, WEB, World, is_current, is_stale, registration};

#[test]
fn connections_that_consul_refuses_are_tried_again() {
    let Some(world) = World::new() else {
        return;
    };
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
    let at = world.consul.at();
    // All that Consul takes of an address, also what the agent leaves to it.
    let mut taken: Vec<TcpStream> = Vec::new();
    let world = world.restart(|_, sandbox| {
        taken = sandbox.node().enter(|| {
            let streams = (0..220).map(|_| TcpStream::connect(at));
            streams.filter_map(Result::ok).collect()
        });
        // Further ones are refused a moment after they were taken.
        thread::sleep(Duration::from_secs(1));
    });
    world.await_source("nothing is known", |source| {
        is_stale(source) && source["synced"] == false
    });
    world.await_pods(&["pod-a"]);
    drop(taken);
    world.await_source("it is up to date", is_current);
    world.await_pods(&["pod-a"]);
}

/// Many services, of which `web` is the last.
fn many(count: u32) -> String {
    let others = (0..count).map(|number| {
        format!(
            "[[frontend]]\nservice = \"s{number}\"\nvip = \"10.200.1.{}\"\nport = {}\n\n",
            number % 200 + 1,
            80 + number / 200
        )
    });
    let others: String = others.collect();
    format!("{others}{WEB}")
}

/// The sockets of processes in the node's namespace that are connected to Consul's HTTP.
fn sockets(world: &World) -> usize {
    let table = world
        .node()
        .enter(|| std::fs::read_to_string("/proc/thread-self/net/tcp"));
    let table = table.unwrap();
    // Connected (01) to port 8500 (2134), of whatever local port.
    let lines = table.lines().filter(|line| {
        let mut fields = line.split_whitespace();
        let remote = fields.nth(2).unwrap_or_default();
        remote.ends_with(":2134") && fields.next() == Some("01")
    });
    lines.count()
}

#[test]
fn many_services_are_followed_by_hints_with_few_sockets() {
    let Some(world) = World::with(Plan::new(&many(150)), |_, _, _| {}) else {
        return;
    };
    let source = world.await_source("all is there", is_current);
    assert_eq!(source["hints"], true, "{source:#}");
    let most = sockets(&world);
    assert!(most <= 64, "{most} sockets");
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
    world.register(&registration("b", addresses::POD_B, "passing"));
    world.await_pods(&["pod-a", "pod-b"]);
    world.register(&registration("a", addresses::POD_A, "critical"));
    world.await_pods(&["pod-b"]);
    world.deregister("b");
    world.await_backends(&[]);
    // A registration without a check is one that is only in the list of services.
    let mut body = registration("d", addresses::POD_D, "passing");
    body.as_object_mut().unwrap().remove("Checks");
    world.register(&body);
    world.await_pods(&["pod-d"]);
    let few = wait_until("the sockets are few", SOON, || {
        (sockets(&world) <= 64).then_some(())
    });
    few.unwrap();
}
