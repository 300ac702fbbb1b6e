//! The tier that has the new connections.

use crate::instances::{
    frontend::Frontend,
    instance::Instance,
    tests::world::{endpoints, frontend, instance, place, taking, translated},
    tier::{Datacenter, Tier},
    translate::{Candidates, translate},
    vip::Address,
};

#[test]
fn the_first_tier_with_a_usable_instance_has_all_new_connections() {
    let well = |address| [instance(address)];
    let ill = |address| [instance(address).checked("c", "critical")];
    let one = frontend("");
    for (tiers, expected) in [
        (
            [&well("10.1.1.1")[..], &well("10.1.1.2")],
            &["10.1.1.1:8080"][..],
        ),
        ([&ill("10.1.1.1"), &well("10.1.1.2")], &["10.1.1.2:8080"]),
        ([&[], &well("10.1.1.2")], &["10.1.1.2:8080"]),
        ([&ill("10.1.1.1"), &ill("10.1.1.2")], &[]),
        ([&[], &[]], &[]),
        // An instance that is skipped serves no client.
        ([&well("db.example"), &well("10.1.1.2")], &["10.1.1.2:8080"]),
    ] {
        assert_eq!(taking(&one, &tiers), expected, "{tiers:?}");
    }
}

#[test]
fn other_tiers_keep_the_connections_that_they_have() {
    let (near, far) = ([instance("10.1.1.1")], [instance("10.1.1.2")]);
    let found = translated(&frontend(""), &["10.200.0.1"], &[&near, &far]);
    let expected = [("10.1.1.1:8080", Some(1)), ("10.1.1.2:8080", Some(0))];
    let expected = expected.map(|(at, weight)| (at.to_owned(), weight));
    assert_eq!(endpoints(&found), expected);
}

#[test]
fn an_instance_in_two_tiers_has_the_weight_of_the_one_that_is_chosen() {
    let ill = instance("10.1.1.1").checked("c", "critical");
    let well = instance("10.1.1.1").weighing(5, 1);
    let tiers: [&[_]; 2] = [&[ill], &[well]];
    assert_eq!(taking(&frontend(""), &tiers), ["10.1.1.1:8080"]);
}

#[test]
fn a_node_prefers_its_own_instances_if_it_is_to() {
    let here = || instance("10.1.1.1").on("n1");
    let there = || instance("10.1.1.2");
    let prefers = frontend("prefer_local = true");
    let both = [here(), there()];
    assert_eq!(taking(&prefers, &[&both]), ["10.1.1.1:8080"]);
    let all = ["10.1.1.1:8080", "10.1.1.2:8080"];
    assert_eq!(taking(&frontend(""), &[&both]), all);
    let ill = [here().checked("c", "critical"), there()];
    assert_eq!(taking(&prefers, &[&ill]), ["10.1.1.2:8080"]);
    assert_eq!(taking(&prefers, &[&[there()]]), ["10.1.1.2:8080"]);
    let warned = [here().checked("c", "warning"), there()];
    assert_eq!(taking(&prefers, &[&warned]), ["10.1.1.1:8080"]);
}

/// Returns the endpoints of a frontend whose own datacenter has none, through these gateways to dc2, where
/// these instances are.
fn through(
    frontend: &Frontend,
    gateways: &[Instance],
    instances: &[Instance],
) -> (Vec<(String, Option<u32>)>, Option<Datacenter>) {
    let address = Address {
        ips: vec!["10.200.0.1".parse().unwrap()],
        port: 80,
    };
    let (own, far) = (
        Tier::of("web", Datacenter::Own),
        Tier::of("web", Datacenter::Other("dc2".into())),
    );
    let tiers = [
        Candidates {
            tier: &own,
            instances: &[],
            gateways: None,
        },
        Candidates {
            tier: &far,
            instances,
            gateways: Some(gateways),
        },
    ];
    let found = translate(frontend, &address, tiers, &place());
    (endpoints(&found), found.serving)
}

/// A gateway at this address for others.
fn gateway(wan: &str) -> Instance {
    instance("10.9.0.1")
        .in_datacenter("dc2")
        .tagged("wan", wan, 443)
}

#[test]
fn mesh_gateways_stand_for_usable_instances_behind_them() {
    let mesh = |wan, datacenter: &str| Instance {
        kind: "mesh-gateway".into(),
        ..gateway(wan).in_datacenter(datacenter)
    };
    let one = frontend("failover = [\"dc2\"]\nvia = \"mesh\"\nsni = true");
    let gateways = [
        mesh("192.0.2.1", "dc2"),
        // One that is warned of is used, as by Consul.
        mesh("192.0.2.2", "dc2").checked("c", "warning"),
        mesh("192.0.2.3", "dc2").checked("c", "critical"),
        mesh("192.0.2.4", "dc3"),
        gateway("192.0.2.5"),
    ];
    let well = [instance("10.2.1.1").in_datacenter("dc2")];
    let at = |number, weight| (format!("192.0.2.{number}:443"), weight);
    let (found, serving) = through(&one, &gateways, &well);
    assert_eq!(found, [at(1, Some(1)), at(2, Some(1)), at(3, None)]);
    assert_eq!(serving, Some(Datacenter::Other("dc2".into())));
    // No client is sent to a gateway with nothing behind it.
    for behind in [vec![], vec![instance("10.2.1.1").checked("c", "critical")]] {
        let (found, serving) = through(&one, &gateways, &behind);
        assert_eq!(found, [at(1, Some(0)), at(2, Some(0)), at(3, None)]);
        assert_eq!(serving, None);
    }
}

#[test]
fn gateways_of_ours_are_those_of_the_service_and_its_protocol() {
    let of = |wan, pairs: &[(&str, &str)]| {
        let mut gateway = gateway(wan);
        for (key, value) in pairs {
            gateway.meta.insert((*key).into(), (*value).into());
        }
        gateway
    };
    let pairs = [
        ("shunt-service", "web"),
        ("shunt-protocol", "tcp"),
        ("shunt-connect", "false"),
    ];
    let other = |at: usize, value| {
        let mut pairs = pairs;
        pairs[at].1 = value;
        pairs
    };
    let gateways = [
        of("192.0.2.1", &pairs),
        of("192.0.2.2", &other(0, "api")),
        of("192.0.2.3", &other(1, "udp")),
        of("192.0.2.4", &other(2, "true")),
        of("192.0.2.5", &[]),
    ];
    let well = [instance("10.2.1.1").in_datacenter("dc2")];
    let one = frontend("failover = [\"dc2\"]\nvia = \"gateway\"");
    let (found, _) = through(&one, &gateways, &well);
    assert_eq!(found, [("192.0.2.1:443".to_owned(), Some(1))]);
}
