//! Weighted splits: what a service's frontends select from, and what makes that change.

use shunt_model::{FrontendKey, PortPart, Protocol, Refusal};

use crate::world::{World, add, delete, nodes, resync, service};

const NODES: [&str; 2] = ["192.168.16.10", "192.168.16.20"];

/// A service at this ClusterIP with these endpoints at port 8080, by the last bytes of their addresses; those
/// of 10.1.1.0/24 are here.
fn plain(name: &str, cluster_ip: &str, endpoints: &[&str]) -> String {
    with_split(name, cluster_ip, endpoints, "")
}

/// The same with a split.
fn with_split(name: &str, cluster_ip: &str, endpoints: &[&str], split: &str) -> String {
    let split = if split.is_empty() {
        String::new()
    } else {
        format!(r#","splits":{{"http":{split}}}"#)
    };
    service(
        name,
        &format!(
            r#""cluster_ips":["{cluster_ip}"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},"backends":{{"http":[{}]}}{split}"#,
            list(endpoints)
        ),
    )
}

/// Endpoints, each as the end of an address and fields that follow: `1.3`, `2.3,"weight":2`.
fn list(endpoints: &[&str]) -> String {
    let one = |text: &&str| {
        let (end, fields) = text.split_once(',').unwrap_or((text, r#""weight":1"#));
        let local = end.starts_with("1.");
        format!(r#"{{"ip":"10.1.{end}","port":8080,"local":{local},{fields}}}"#)
    };
    endpoints.iter().map(one).collect::<Vec<_>>().join(",")
}

/// A split among services of the default namespace at their port 80, with weights.
fn split(mode: &str, backends: &[(&str, u32)]) -> String {
    let backends: Vec<String> = backends
        .iter()
        .map(|(name, weight)| {
            format!(
                r#"{{"service":{{"namespace":"default","name":"{name}"}},"port":80,"weight":{weight}}}"#
            )
        })
        .collect();
    format!(r#"{{"mode":"{mode}","backends":[{}]}}"#, backends.join(","))
}

fn web(split: &str) -> String {
    with_split("web", "10.96.0.1", &["1.3", "2.3"], split)
}

fn canary(endpoints: &[&str]) -> String {
    plain("web-canary", "10.96.0.2", endpoints)
}

/// Returns the backends of the frontend of `web`.
fn of_web(world: &World) -> String {
    let frontends = world.frontends();
    let found = frontends
        .iter()
        .find_map(|text| text.strip_prefix("10.96.0.1:80/TCP ClusterIP Cluster default/web: "));
    found.unwrap_or("nobody").to_owned()
}

fn refusal_of_web(world: &World) -> Refusal {
    let key = FrontendKey {
        address: "10.96.0.1".parse().unwrap(),
        port: 80,
        protocol: Protocol::Tcp,
    };
    world.renderer.frontend(key).unwrap().refusal
}

/// Returns the backends of `web` by a split in this mode among itself, `web-canary` and `gone`, of these weights, where
/// `web-canary` has these endpoints.
fn rendered(mode: &str, weights: [u32; 3], canaries: &[&str]) -> String {
    let [own, new, gone] = weights;
    let backends = [("web", own), ("web-canary", new), ("gone", gone)];
    let world = World::synced(&NODES, &[&web(&split(mode, &backends)), &canary(canaries)]);
    of_web(&world)
}

#[test]
fn a_service_is_chosen_by_its_weight_and_then_an_endpoint_by_its_own() {
    // Three endpoints have no more together than one alone, for each weight.
    let canaries = ["1.7", r#"2.7,"weight":2"#, "2.8"];
    assert_eq!(
        rendered("available", [60, 40, 0], &canaries),
        "10.1.1.3:8080*30.000% local, 10.1.1.7:8080*10.000% local, 10.1.2.3:8080*30.000%, \
         10.1.2.7:8080*20.000%, 10.1.2.8:8080*10.000%"
    );
}

#[test]
fn the_modes_differ_in_what_becomes_of_the_share_of_what_cannot_be_used() {
    for (mode, weights, canaries, wanted) in [
        // A service that does not exist.
        (
            "strict",
            [2, 1, 1],
            &["1.7"][..],
            "10.1.1.3:8080*25.000% local, 10.1.1.7:8080*25.000% local, 10.1.2.3:8080*25.000%, refused*25.000%",
        ),
        (
            "available",
            [2, 1, 1],
            &["1.7"],
            "10.1.1.3:8080*33.333% local, 10.1.1.7:8080*33.333% local, 10.1.2.3:8080*33.333%",
        ),
        (
            "first",
            [2, 1, 1],
            &["1.7"],
            "10.1.1.3:8080*50.000% local, 10.1.1.7:8080*0.000% local, 10.1.2.3:8080*50.000%",
        ),
        // One of weight 0 has nothing in any mode.
        (
            "first",
            [0, 1, 0],
            &["1.7"],
            "10.1.1.3:8080*0.000% local, 10.1.1.7:8080*100.000% local, 10.1.2.3:8080*0.000%",
        ),
        (
            "strict",
            [0, 3, 1],
            &["1.7"],
            "10.1.1.3:8080*0.000% local, 10.1.1.7:8080*75.000% local, 10.1.2.3:8080*0.000%, refused*25.000%",
        ),
        // One whose endpoints cannot be used.
        (
            "strict",
            [3, 1, 0],
            &[
                r#"1.7,"weight":0"#,
                r#"1.8,"state":"NotReady""#,
                r#"1.9,"state":"Terminating""#,
            ],
            "10.1.1.3:8080*37.500% local, 10.1.1.7:8080*0.000% local, 10.1.1.9:8080*0.000% local, \
             10.1.2.3:8080*37.500%, refused*25.000%",
        ),
        (
            "available",
            [3, 1, 0],
            &[r#"1.7,"state":"NotReady""#],
            "10.1.1.3:8080*50.000% local, 10.1.2.3:8080*50.000%",
        ),
        // One that is terminating and serving takes connections where its own service has no other.
        (
            "strict",
            [1, 1, 0],
            &[r#"1.7,"state":"Terminating","serving":true"#],
            "10.1.1.3:8080*25.000% local, 10.1.1.7:8080*50.000% local, 10.1.2.3:8080*25.000%",
        ),
    ] {
        assert_eq!(
            rendered(mode, weights, canaries),
            wanted,
            "{mode} {weights:?}"
        );
    }
}

#[test]
fn the_first_that_can_be_used_has_all() {
    let backends = [("gone", 1), ("web-canary", 1), ("web", 1)];
    let mut world = World::synced(
        &NODES,
        &[&web(&split("first", &backends)), &canary(&["1.7"])],
    );
    assert_eq!(
        of_web(&world),
        "10.1.1.3:8080*0.000% local, 10.1.1.7:8080*100.000% local, 10.1.2.3:8080*0.000%"
    );
    world.tell(&add(&canary(&[r#"1.7,"state":"Terminating""#])));
    assert_eq!(
        of_web(&world),
        "10.1.1.3:8080*50.000% local, 10.1.1.7:8080*0.000% local, 10.1.2.3:8080*50.000%",
        "the next tier"
    );
    world.tell(&add(&plain("gone", "10.96.0.3", &["1.9"])));
    assert_eq!(
        of_web(&world),
        "10.1.1.3:8080*0.000% local, 10.1.1.7:8080*0.000% local, 10.1.1.9:8080*100.000% local, \
         10.1.2.3:8080*0.000%",
        "a tier that has come"
    );
}

#[test]
fn a_split_that_nobody_can_serve_refuses_all_and_panics_nowhere() {
    for mode in ["available", "strict", "first"] {
        for (backends, usable) in [
            (&[][..], false),
            (&[("web", 0)], false),
            (&[("web", 0), ("web-canary", 0)], false),
            (&[("gone", 7)], false),
            (&[("web", u32::MAX)], true),
        ] {
            let world = World::synced(&NODES, &[&web(&split(mode, backends))]);
            let (_, frontend) = world.renderer.frontends().next().unwrap();
            assert_eq!(frontend.backends.is_usable(), usable, "{mode} {backends:?}");
            assert_eq!(
                frontend.backends.refused(),
                0,
                "the frontend itself refuses"
            );
            let refusal = if usable {
                Refusal::Drop
            } else {
                Refusal::Reject
            };
            assert_eq!(refusal_of_web(&world), refusal, "{mode} {backends:?}");
        }
    }
}

#[test]
fn a_service_of_a_split_is_its_own_endpoints_and_never_its_split() {
    // Each names the other and itself.
    let web = web(&split("strict", &[("web", 1), ("web-canary", 1)]));
    let canary = with_split(
        "web-canary",
        "10.96.0.2",
        &["1.7"],
        &split("strict", &[("web", 3), ("web-canary", 1)]),
    );
    let world = World::synced(&NODES, &[&web, &canary]);
    world.expect(&[
        "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.3:8080*25.000% local, 10.1.1.7:8080*50.000% local, 10.1.2.3:8080*25.000%",
        "10.96.0.2:80/TCP ClusterIP Cluster default/web-canary: 10.1.1.3:8080*37.500% local, 10.1.1.7:8080*25.000% local, 10.1.2.3:8080*37.500%",
    ]);
}

#[test]
fn backends_that_are_listed_twice_count_twice_and_their_endpoints_once() {
    let backends = [("web", 1), ("web-canary", 2), ("web", 1)];
    let world = World::synced(
        &NODES,
        &[&web(&split("strict", &backends)), &canary(&["1.3", "1.7"])],
    );
    assert_eq!(
        of_web(&world),
        "10.1.1.3:8080*50.000% local, 10.1.1.7:8080*25.000% local, 10.1.2.3:8080*25.000%"
    );
}

#[test]
fn addresses_and_what_is_invalid_are_backends_too() {
    let split = r#"{"mode":"strict","backends":[
        {"ip":"10.9.9.9","port":9090,"weight":3},
        {"ip":"10.1.1.3","port":8080},
        {"invalid":"a kind of backend that there is not","weight":1},
        {"service":{"namespace":"default","name":"web"},"port":81,"weight":3}]}"#;
    let world = World::synced(&NODES, &[&web(&split.replace('\n', ""))]);
    assert_eq!(
        of_web(&world),
        "10.1.1.3:8080*12.500%, 10.9.9.9:9090*37.500%, refused*50.000%"
    );
}

#[test]
fn each_family_is_judged_by_itself() {
    let web = service(
        "web",
        &format!(
            r#""cluster_ips":["10.96.0.1","fd00:10:96::1"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},"backends":{{"http":[{},{{"ip":"fd00:10:1:1::3","port":8080,"local":true}}]}},"splits":{{"http":{}}}"#,
            list(&["1.3"]),
            split("strict", &[("web", 9), ("web-canary", 1)])
        ),
    );
    let world = World::synced(&NODES, &[&web, &canary(&["1.7"])]);
    assert_eq!(
        world.frontends()[0],
        "10.96.0.1:80/TCP ClusterIP Cluster default/web: 10.1.1.3:8080*90.000% local, 10.1.1.7:8080*10.000% local"
    );
    assert_eq!(
        world.frontends()[2],
        "[fd00:10:96::1]:80/TCP ClusterIP Cluster default/web: [fd00:10:1:1::3]:8080*90.000% local, refused*10.000%"
    );
}

#[test]
fn endpoints_of_the_services_are_followed_and_nobody_else_is_concerned() {
    let strict = split("strict", &[("web", 1), ("web-canary", 1)]);
    let other = plain("other", "10.96.0.9", &["1.9"]);
    let mut world = World::synced(&NODES, &[&web(&strict), &other]);
    let both = "10.1.1.3:8080*25.000% local, 10.1.1.7:8080*50.000% local, 10.1.2.3:8080*25.000%";
    let half = "10.1.1.3:8080*25.000% local, 10.1.2.3:8080*25.000%, refused*50.000%";
    assert_eq!(of_web(&world), half);

    let outcome = world.tell(&add(&canary(&["1.7"])));
    assert_eq!(outcome.counts(), (1, 1, 0), "the split's service has come");
    assert_eq!(of_web(&world), both);
    let outcome = world.tell(&add(&canary(&["1.7"])));
    assert_eq!(outcome.counts(), (0, 0, 0), "nothing new");
    let outcome = world.tell(&add(&other.replace("1.9", "1.8")));
    assert_eq!(outcome.counts(), (0, 1, 0), "no split names it");
    let outcome = world.tell(&nodes(&NODES, &[&canary(&["2.7"])]));
    assert_eq!(outcome.counts(), (0, 2, 0));
    assert_eq!(
        of_web(&world),
        both.replace(
            "10.1.1.7:8080*50.000% local, 10.1.2.3:8080*25.000%",
            "10.1.2.3:8080*25.000%, 10.1.2.7:8080*50.000%"
        )
    );
    let outcome = world.tell(&delete("web-canary"));
    assert_eq!(outcome.counts(), (0, 1, 1));
    assert_eq!(of_web(&world), half);

    // Without the split, its changes concern no service any more.
    world.tell(&add(&web("")));
    assert_eq!(of_web(&world), "10.1.1.3:8080*1 local, 10.1.2.3:8080*1");
    let outcome = world.tell(&add(&canary(&["1.7"])));
    assert_eq!(outcome.counts(), (1, 0, 0));
}

#[test]
fn a_snapshot_may_name_the_services_in_any_order() {
    let strict = split("strict", &[("web", 1), ("web-canary", 1)]);
    let services = [web(&strict), canary(&["1.7"])];
    let [first, second] = &services;
    let mut world = World::synced(&NODES, &[first, second]);
    let both = of_web(&world);
    assert!(both.contains("10.1.1.7"), "{both}");
    let outcome = world.tell(&resync(&NODES, &[second, first]));
    assert_eq!(outcome.counts(), (0, 0, 0));
    let outcome = world.tell(&resync(&NODES, &[first]));
    assert_eq!(outcome.counts(), (0, 1, 1), "a snapshot leaves it out");
}

const ALL_KINDS: &str = r#""cluster_ips":["10.96.0.1"],"external_ips":["203.0.113.7"],
    "ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}}"#;

fn everywhere(fields: &str, split: &str) -> String {
    service(
        "web",
        &format!(
            r#"{}{fields},"backends":{{"http":[{}]}},"splits":{{"http":{split}}}"#,
            ALL_KINDS.replace('\n', ""),
            list(&["1.3", "2.3"])
        ),
    )
}

#[test]
fn a_split_is_for_all_frontends_or_for_those_at_cluster_ips() {
    let strict = split("strict", &[("web", 1), ("web-canary", 1)]);
    let mut world = World::synced(&NODES[..1], &[&everywhere("", &strict), &canary(&["1.7"])]);
    let all = "10.1.1.3:8080*25.000% local, 10.1.1.7:8080*50.000% local, 10.1.2.3:8080*25.000%";
    let own = "10.1.1.3:8080*1 local, 10.1.2.3:8080*1";
    let without_canary = |world: &World| {
        let frontends = world.frontends().into_iter();
        let others = frontends.filter(|text| !text.contains("web-canary"));
        others.collect::<Vec<_>>()
    };
    assert_eq!(
        without_canary(&world),
        [
            format!("10.96.0.1:80/TCP ClusterIP Cluster default/web: {all}"),
            format!("192.168.16.10:30080/TCP NodePort Cluster default/web: {all}"),
            format!("203.0.113.7:80/TCP ExternalIP Cluster default/web: {all}"),
        ]
    );
    let restricted = strict.replace(r#""mode""#, r#""frontends":"cluster_ip","mode""#);
    world.tell(&add(&everywhere("", &restricted)));
    assert_eq!(
        without_canary(&world),
        [
            format!("10.96.0.1:80/TCP ClusterIP Cluster default/web: {all}"),
            format!("192.168.16.10:30080/TCP NodePort Cluster default/web: {own}"),
            format!("203.0.113.7:80/TCP ExternalIP Cluster default/web: {own}"),
        ]
    );
    let sets = |at: &str| {
        let mut frontends = world.renderer.frontends();
        let found = frontends.find(|(key, _)| key.to_string() == at).unwrap().1;
        found.backends.part == PortPart::BesideSplit
    };
    assert!(!sets("10.96.0.1:80/TCP"));
    assert!(
        sets("203.0.113.7:80/TCP"),
        "it shares no backends with the split"
    );
}

#[test]
fn under_policy_local_both_choices_are_made_among_what_is_here() {
    let strict = split("strict", &[("web", 3), ("web-canary", 1)]);
    let local = r#","traffic_policy":"Local""#;
    let mut world = World::synced(
        &NODES[..1],
        &[&everywhere(local, &strict), &canary(&["1.7", "1.8", "2.7"])],
    );
    let external = |world: &World| world.frontends().pop().unwrap();
    assert_eq!(
        external(&world),
        "203.0.113.7:80/TCP ExternalIP Local default/web: 10.1.1.3:8080*75.000% local, \
         10.1.1.7:8080*12.500% local, 10.1.1.8:8080*12.500% local; here 10.1.1.3:8080*37.500% local, \
         10.1.1.7:8080*8.333% local, 10.1.1.8:8080*8.333% local, 10.1.2.3:8080*37.500%, \
         10.1.2.7:8080*8.333%"
    );
    // A backend that is elsewhere alone cannot be used from here.
    world.tell(&add(&canary(&["2.7"])));
    assert!(
        external(&world).starts_with(
            "203.0.113.7:80/TCP ExternalIP Local default/web: 10.1.1.3:8080*75.000% local, refused*25.000%; here"
        ),
        "{}",
        external(&world)
    );
    let elsewhere = everywhere(local, &strict)
        .replace("10.1.1.3", "10.1.3.3")
        .replace(
            r#""port":8080,"local":true"#,
            r#""port":8080,"local":false"#,
        );
    world.tell(&add(&elsewhere));
    let (_, frontend) = world.renderer.frontends().last().unwrap();
    assert!(!frontend.backends.is_usable());
    assert_eq!(frontend.refusal, Refusal::Drop, "as without a split");
}

#[test]
fn another_nodes_choice_of_this_one_is_kept() {
    let strict = split("strict", &[("web", 1), ("web-canary", 1), ("gone", 2)]);
    let world = World::synced(
        &NODES[..1],
        &[
            &everywhere(r#","forwarding":"dsr""#, &strict),
            &canary(&["1.7", "2.7", "2.8", "2.9"]),
        ],
    );
    // Here one half of the service's share and a quarter of the canary's: two to one, and nothing of what
    // the first node has refused.
    assert_eq!(
        world.frontends().pop().unwrap(),
        "203.0.113.7:80/TCP ExternalIP Cluster dsr default/web: 10.1.1.3:8080*12.500% local, \
         10.1.1.7:8080*6.250% local, 10.1.2.3:8080*12.500%, 10.1.2.7:8080*6.250%, 10.1.2.8:8080*6.250%, \
         10.1.2.9:8080*6.250%, refused*50.000%; here 10.1.1.3:8080*12.500% local, 10.1.1.7:8080*6.250% local"
    );
}

#[test]
fn packets_for_endpoints_of_all_the_services_find_their_nodes() {
    let strict = split("strict", &[("web", 1), ("web-canary", 1)]);
    let dsr = everywhere(r#","forwarding":"dsr""#, &strict);
    let mut world = World::synced(&NODES, &[&dsr]);
    world.tell(r#"{"event":"UpdateNodes","nodes":{"b":["192.168.16.20"]}}"#);
    assert_eq!(world.located(), ["192.168.16.20 at 192.168.16.20"]);
    world.tell(&add(&canary(&[r#"2.7,"node":"b""#, r#"2.8,"node":"c""#])));
    assert_eq!(
        world.located(),
        [
            "10.1.2.7 at 192.168.16.20",
            "192.168.16.20 at 192.168.16.20"
        ]
    );
    let unlocated = world.renderer.unlocated();
    let unlocated: Vec<String> = unlocated.iter().map(|(_, ip)| ip.to_string()).collect();
    assert_eq!(unlocated, ["10.1.2.3", "10.1.2.8"]);
    world.tell(&delete("web-canary"));
    assert_eq!(world.located(), ["192.168.16.20 at 192.168.16.20"]);
}

#[test]
fn an_endpoint_that_is_borrowed_is_one_of_the_port() {
    let strict = split("strict", &[("web-canary", 1)]);
    let mut world = World::synced(&NODES, &[&web(&strict), &canary(&["1.7"])]);
    let key = FrontendKey {
        address: "10.96.0.1".parse().unwrap(),
        port: 80,
        protocol: Protocol::Tcp,
    };
    let has = |world: &World, text: &str| world.renderer.has_endpoint(key, text.parse().unwrap());
    assert!(has(&world, "10.1.1.7:8080"));
    assert!(
        has(&world, "10.1.1.3:8080"),
        "its own, though it takes nothing"
    );
    world.tell(&delete("web-canary"));
    assert!(!has(&world, "10.1.1.7:8080"));
}

#[test]
fn endpoints_that_hints_keep_from_this_node_are_no_part_of_the_split() {
    let canaries = [r#"2.7,"scopes":[]"#, r#"2.8,"scopes":["Cluster"]"#];
    assert_eq!(
        rendered("strict", [1, 1, 0], &canaries),
        "10.1.1.3:8080*25.000% local, 10.1.2.3:8080*25.000%, 10.1.2.8:8080*50.000%"
    );
    assert_eq!(
        rendered("strict", [1, 1, 0], &canaries[..1]),
        "10.1.1.3:8080*25.000% local, 10.1.2.3:8080*25.000%, refused*50.000%"
    );
}

#[test]
fn local_backends_count_more_among_those_of_their_own_service() {
    let mut world = World::with_weight(3);
    let strict = split("strict", &[("web", 1), ("web-canary", 1)]);
    world.tell(&resync(&NODES, &[&web(&strict), &canary(&["1.7"])]));
    assert_eq!(
        of_web(&world),
        "10.1.1.3:8080*37.500% local, 10.1.1.7:8080*50.000% local, 10.1.2.3:8080*12.500%"
    );
}

#[test]
fn a_maglev_table_is_made_for_all_endpoints_that_take_connections_and_for_what_is_refused() {
    let fields = r#","selection":"maglev","session_affinity_timeout":60"#;
    let strict = split("strict", &[("web", 1), ("web-canary", 1)]);
    let world = World::synced(&NODES[..1], &[&everywhere(fields, &strict)]);
    assert_eq!(
        world.frontends().pop().unwrap(),
        "203.0.113.7:80/TCP ExternalIP Cluster affinity=60 maglev=4093 default/web: \
         10.1.1.3:8080*25.000% local, 10.1.2.3:8080*25.000%, refused*50.000%"
    );
}
