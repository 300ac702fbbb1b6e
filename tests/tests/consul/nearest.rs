//! The nearest datacenter, by the real Consul's own estimate: dc2 is far away, dc3 is next door.

use std::{net::IpAddr, time::Duration};

use serde_json::json;
use shunt_tests::{Consul, DelayLine, Namespace, addresses, wait_until};

use crate::{
    joined::{NEAR, await_joined, server},
    world::{Plan, SERVED, SOON, WEB, World, ground, registration},
};

/// Distance of dc2, in one direction.
const FAR: Duration = Duration::from_millis(20);

/// The long line to it.
const LINE: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

/// Registers an instance of `web` with a server.
fn register(consul: &Consul, namespace: &Namespace, id: &str, address: IpAddr) {
    let body = json!({
        "Name": "web", "ID": id, "Address": address.to_string(), "Port": SERVED,
    });
    let path = "/v1/agent/service/register";
    consul.put(namespace, path, &body).unwrap();
}

#[test]
fn the_nearest_datacenter_with_somebody_serves() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let [node, node2, outside] = [sandbox.node(), sandbox.node2(), sandbox.outside()];
    let _line = DelayLine::new([(node, "far"), (outside, "far")], FAR).unwrap();
    for (namespace, [own, other]) in [(node, LINE), (outside, [LINE[1], LINE[0]])] {
        let line = format!("address add {own} peer {other} dev far\nlink set far up\n");
        namespace.configure(&line).unwrap();
    }
    // The answers of dc2 take the long line, too.
    let route = format!(
        "route add 192.168.16.0/24 via {} src {}\n",
        LINE[0], LINE[1]
    );
    outside.configure(&route).unwrap();
    let far_away = LINE[1].parse().unwrap();
    let servers = [
        (node, NEAR, addresses::NODE),
        (outside, "dc2", far_away),
        (node2, "dc3", addresses::NODE2),
    ];
    let launch = |(namespace, name, address)| {
        Consul::launch(&binary, namespace, server(name, address)).unwrap()
    };
    let [near, far, next] = servers.map(launch);
    for (consul, (namespace, ..)) in [&near, &far, &next].into_iter().zip(servers) {
        consul.wait(namespace).unwrap();
    }
    await_joined(&near, node, "dc2", &far);
    await_joined(&near, node, "dc3", &next);
    let estimated = wait_until("Consul knows who is near", SOON, || {
        let answer = near.ask(node, "GET", "/v1/catalog/datacenters", "").ok()?;
        (answer.body == r#"["dc1","dc3","dc2"]"#).then_some(())
    });
    estimated.unwrap();
    register(&far, outside, "b", addresses::POD_B);
    register(&next, node2, "d", addresses::POD_D);
    let frontends = format!("{WEB}failover_nearest = 2\n");
    let world = World::with_a(sandbox, near, Plan::new(&frontends));
    world.await_pods(&["pod-a"]);
    world.deregister("a");
    world.await_pods(&["pod-d"]);
    let serves = |datacenter: &str| {
        let expected = json!([{ "service": "consul/web", "datacenter": datacenter }]);
        world.await_source("it is seen who serves", |source| {
            source["failed_over"] == expected
        });
    };
    serves("dc3");
    let deregister = "/v1/agent/service/deregister/d";
    next.put(world.sandbox.node2(), deregister, &json!({}))
        .unwrap();
    world.await_pods(&["pod-b"]);
    serves("dc2");
    register(&next, world.sandbox.node2(), "d", addresses::POD_D);
    world.await_pods(&["pod-d"]);
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
}
