//! Consul's own mesh gateways of another datacenter, read from the real federation state.
//!
//! A server of the sandbox stands where the gateway would: what it is sent is all that is looked at.

use serde_json::{Value, json};
use shunt_tests::{Consul, addresses};

use crate::{
    joined::two_datacenters,
    world::{Plan, SERVED, WEB, World, ground, registration},
};

/// Path where dc2 registers its gateway, and the name of the gateway's check.
const REGISTER: &str = "/v1/agent/service/register";
const CHECK: &str = "service:gate";

/// Sends the server of dc2 a request.
#[track_caller]
fn tell(world: &World, far: &Consul, path: &str, body: &Value) {
    far.put(world.sandbox.node2(), path, body).unwrap();
}

#[test]
fn a_mesh_gateway_is_used_while_it_and_the_service_behind_it_are_well() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let (near, far) = two_datacenters(&sandbox, &binary);
    let instance = json!({
        "Name": "web", "ID": "d", "Address": addresses::POD_D.to_string(), "Port": SERVED,
    });
    let gateway = json!({
        "Kind": "mesh-gateway", "Name": "mesh-gateway", "ID": "gate",
        // Others are to go to the address `wan`, at which pod-b stands.
        "Address": addresses::NODE2.to_string(), "Port": 8443,
        "TaggedAddresses": { "wan": { "Address": addresses::POD_B.to_string(), "Port": SERVED } },
        "Check": { "TTL": "1h", "Status": "passing" },
    });
    for body in [&instance, &gateway] {
        far.put(sandbox.node2(), REGISTER, body).unwrap();
    }
    let frontends = format!("{WEB}failover = [\"dc2\"]\nvia = \"mesh\"\nsni = true\n");
    let world = World::with_a(sandbox, near, Plan::new(&frontends));
    world.await_pods(&["pod-a"]);
    let known = world.await_source("the gateway is known", |source| {
        source["gateways"][0]["datacenter"] == "dc2"
    });
    let gateway = &known["gateways"][0];
    assert_eq!(gateway["origin"], "Consul's federation state", "{known:#}");
    let text = world.status_text();
    assert!(text.contains("Consul's federation state"), "{text}");

    world.deregister("a");
    world.await_pods(&["pod-b"]);
    world.await_source("dc2 is seen to serve", |source| {
        source["failed_over"] == json!([{ "service": "consul/web", "datacenter": "dc2" }])
    });
    // The gateway's own check, and then who is behind it.
    let nothing = json!({});
    let check = |verdict: &str| format!("/v1/agent/check/{verdict}/{CHECK}");
    tell(&world, &far, &check("fail"), &nothing);
    world.await_backends(&[]);
    tell(&world, &far, &check("warn"), &nothing);
    world.await_pods(&["pod-b"]);
    tell(&world, &far, "/v1/agent/service/deregister/d", &nothing);
    world.await_backends(&[]);
    tell(&world, &far, REGISTER, &instance);
    world.await_pods(&["pod-b"]);
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
}
