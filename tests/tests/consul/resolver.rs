//! Tiers of the real Consul's resolver, in another datacenter, too.

use serde_json::{Value, json};
use shunt_tests::addresses;

use crate::{
    joined::two_datacenters,
    world::{Plan, SERVED, WEB, World, ground, is_current, registration},
};

#[test]
fn many_resolved_services_leave_room_for_others() {
    // Each has a chain and an instance query, over plain HTTP.
    let resolved = (0..70).map(|number| {
        format!(
            "[[frontend]]\nservice = \"r{number}\"\nvip = \"10.200.3.{}\"\nport = 80\n\
             failover = \"resolver\"\n\n",
            number + 1
        )
    });
    let plain = (0..79).map(|number| {
        format!(
            "[[frontend]]\nservice = \"s{number}\"\nvip = \"10.200.2.{}\"\nport = 80\n\n",
            number + 1
        )
    });
    let frontends: String = resolved.chain(plain).collect();
    let plan = Plan::new(&format!("{frontends}{WEB}failover = \"resolver\"\n"));
    let Some(world) = World::with(plan, |_, _, _| {}) else {
        return;
    };
    world.await_source("all is there", is_current);
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_backends(&[addresses::POD_A]);
    // Their resolvers are followed all the same.
    resolve(&world, &json!({ "Redirect": { "Service": "r1" } }));
    world.await_backends(&[]);
}

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
