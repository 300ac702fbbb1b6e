//! Registrations as instances of frontends.

use serde_json::json;

use super::world::{NODE, World, register};
use crate::{
    instances::{
        instance::CheckStatus,
        query::{Query, QueryKind},
        tier::Datacenter,
    },
    local::{instances::instances, registrar::LocalNode, state::status::Status},
};

#[test]
fn instances_are_those_of_the_name_or_who_speaks_connect_for_it() {
    use QueryKind::{Connect, Service};

    let mut world = World::default();
    world.change(&register(json!({
        "Name": "Web", "ID": "web1", "Port": 80, "Tags": ["t"], "Meta": { "k": "v" },
        "Weights": { "Passing": 5, "Warning": 2 }, "Check": { "TTL": "10s" },
        "Connect": { "SidecarService": {} },
    })));
    world.change(&register(json!({
        "Name": "web", "ID": "web2", "Address": "10.0.0.2", "Connect": { "Native": true },
    })));
    world.change(&register(json!({ "Name": "other" })));
    world.tell("service:web1", Status::Warning);
    let node = LocalNode {
        name: NODE.to_owned(),
        address: Some("192.0.2.1".parse().unwrap()),
    };
    let found = |service: &str, kind| {
        let query = Query {
            service: service.into(),
            kind,
            datacenter: Datacenter::Own,
            filter: None,
        };
        instances(&query, &world.registry, &node)
    };
    let ids = |service, kind| {
        let found = found(service, kind).into_iter();
        found
            .map(|instance| instance.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("WEB", Service), ["web1", "web2"]);
    assert_eq!(ids("web", Connect), ["web1-sidecar-proxy", "web2"]);
    assert!(ids("nobody", Service).is_empty());
    let web = &found("web", Service)[0];
    assert_eq!(&*web.node, NODE);
    assert_eq!(&*web.node_address, "192.0.2.1");
    assert_eq!((web.port, &*web.tags[0], &*web.meta["k"]), (80, "t", "v"));
    let weights = web.weights.unwrap();
    assert_eq!((weights.passing, weights.warning), (5, 2));
    assert_eq!(web.checks.len(), 1);
    assert_eq!(web.checks[0].status, CheckStatus::Warning);
}
