//! Tiers that the real Consul's resolver says, in another datacenter, too.

use serde_json::{Value, json};
use shunt_tests::addresses;

use crate::{
    joined::two_datacenters,
    world::{Plan, SERVED, WEB, World, ground, registration},
};

/// The service has this resolver from now on.
fn resolve(world: &World, further: &Value) {
    let mut entry = json!({ "Kind": "service-resolver", "Name": "web" });
    let further = further.as_object().unwrap().clone();
    entry.as_object_mut().unwrap().extend(further);
    world.put("/v1/config", &entry);
}

#[test]
fn a_resolver_says_which_datacenter_serves_and_may_change() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let (near, far) = two_datacenters(&sandbox, &binary);
    for (id, address, version) in [("b", addresses::POD_B, "1"), ("d", addresses::POD_D, "2")] {
        let body = json!({
            "Name": "web", "ID": id, "Address": address.to_string(), "Port": SERVED,
            "Meta": { "version": version },
        });
        let register = "/v1/agent/service/register";
        far.put(sandbox.node2(), register, &body).unwrap();
    }
    let frontends = format!("{WEB}failover = \"resolver\"\n");
    let world = World::with_a(sandbox, near, Plan::new(&frontends));
    world.await_pods(&["pod-a"]);
    // Without a resolver there is no other datacenter.
    world.deregister("a");
    world.await_backends(&[]);
    resolve(
        &world,
        &json!({ "Failover": { "*": { "Datacenters": ["dc3", "dc2"] } } }),
    );
    world.await_pods(&["pod-b", "pod-d"]);
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
    // A redirect comes first, and a subset is some of the instances there.
    resolve(&world, &json!({ "Redirect": { "Datacenter": "dc2" } }));
    world.await_pods(&["pod-b", "pod-d"]);
    resolve(
        &world,
        &json!({
            "DefaultSubset": "gone",
            "Subsets": {
                "gone": { "Filter": "Service.Meta.version == 9" },
                "second": { "Filter": "Service.Meta.version == 2" },
            },
            "Failover": { "*": { "ServiceSubset": "second", "Datacenters": ["dc2"] } },
        }),
    );
    world.await_pods(&["pod-d"]);
    let path = "/v1/config/service-resolver/web";
    let answer = world.consul.ask(world.node(), "DELETE", path, "").unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    world.await_pods(&["pod-a"]);
}
