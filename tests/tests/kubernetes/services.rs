//! Services and slices as they come and go.

use serde_json::{Value, json};
use shunt_tests::{Target, addresses, refuse_foreign_resync};

use crate::{
    objects::{SERVED, and, node, ready, service, slice, terminating, with},
    world::{World, is_refused, is_silent, tcp},
};

const IP: &str = "10.96.0.10";

#[test]
fn a_service_of_the_cluster_is_reached_by_both_families() {
    let Some(world) = World::new() else {
        return;
    };
    let client = world.pod();
    // The slice before its Service.
    world.server.put(slice(
        "web",
        "4",
        &[ready(addresses::POD_A), ready(addresses::POD_D)],
    ));
    world.server.put(service("web", IP));
    world.await_pods(client, tcp(IP, 80), &["pod-a", "pod-d"]);
    let v6 = addresses::v6(IP.parse().unwrap()).to_string();
    world.await_failure(client, tcp(&v6, 80), is_refused);
    let [a, b] = [addresses::POD_A, addresses::POD_B].map(addresses::v6);
    world.server.put(slice("web", "6", &[ready(b)]));
    world.await_pods(client, tcp(&v6, 80), &["pod-b"]);
    world.server.put(slice("web", "6", &[ready(b), ready(a)]));
    world.await_pods(client, tcp(&v6, 80), &["pod-a", "pod-b"]);

    let source = world.source();
    let known = ["services", "endpoint_slices", "endpoints"].map(|name| source[name].clone());
    assert_eq!(known, [1, 2, 4].map(Value::from), "{source:#}");
    assert_eq!(source["node"]["name"], "node-1");
    assert_eq!(
        source["node"]["addresses"],
        json!([addresses::NODE, addresses::v6(addresses::NODE)])
    );
    assert_eq!(source["connected"], true);
    let text = world.status_text();
    assert!(
        text.contains("1 Services, 2 EndpointSlices, 4 endpoints"),
        "{text}"
    );

    world.server.delete(&service("web", IP));
    world.await_frontends(&<_>::default());
}

#[test]
fn a_resync_of_a_client_takes_no_service_of_the_cluster_away() {
    let Some(world) = World::with_web(IP) else {
        return;
    };
    let before = world.shunt("services");
    refuse_foreign_resync(world.agent.socket(), "following Kubernetes at ").unwrap();
    assert_eq!(frontends(&world.shunt("services")), frontends(&before));
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-a"]);
}

/// The addresses of frontends.
fn frontends(services: &Value) -> Vec<Value> {
    let services = services.as_array().unwrap().iter();
    services
        .map(|frontend| frontend["address"].clone())
        .collect()
}

#[test]
fn a_label_takes_a_service_away_and_gives_it_back() {
    let Some(world) = World::new() else {
        return;
    };
    let (web, pods) = (
        service("web", IP),
        slice("web", "4", &[ready(addresses::POD_A)]),
    );
    world.server.put(web.clone());
    world.server.put(pods.clone());
    let client = world.pod();
    world.await_pods(client, tcp(IP, 80), &["pod-a"]);
    for label in [
        "service.kubernetes.io/service-proxy-name",
        "service.kubernetes.io/headless",
    ] {
        world
            .server
            .put(and(web.clone(), "/metadata/labels", label, "other"));
        world.await_frontends(&<_>::default());
        world.server.put(web.clone());
        world.await_pods(client, tcp(IP, 80), &["pod-a"]);
        world
            .server
            .put(and(pods.clone(), "/metadata/labels", label, "other"));
        world.await_failure(client, tcp(IP, 80), is_refused);
        world.server.put(pods.clone());
        world.await_pods(client, tcp(IP, 80), &["pod-a"]);
    }
    let requests = world.server.requests();
    let of_services = requests
        .iter()
        .find(|uri| uri.starts_with("/api/v1/services?"));
    let of_services = of_services.unwrap();
    for selector in [
        "labelSelector=%21service.kubernetes.io%2Fservice-proxy-name%2C%21service.kubernetes.io%2Fheadless",
        "fieldSelector=spec.clusterIP%21%3DNone",
    ] {
        assert!(of_services.contains(selector), "{of_services}");
    }
}

#[test]
fn nothing_anywhere_is_refused_and_nothing_here_is_dropped() {
    let Some(world) = World::new() else {
        return;
    };
    let ports = json!([{ "name": "http", "port": 80, "nodePort": 30080 }]);
    let web = with(service("web", IP), "/spec/ports", ports);
    let web = with(web, "/spec/type", "NodePort");
    let web = and(web, "/spec", "externalIPs", json!(["203.0.113.7"]));
    let local = and(web.clone(), "/spec", "externalTrafficPolicy", "Local");
    let (client, outside) = (world.pod(), world.sandbox.outside());
    let node_port = tcp(&addresses::NODE.to_string(), 30080);
    let external = tcp("203.0.113.7", 80);
    // A Service without slices is there, and refuses.
    world.server.put(web.clone());
    for target in [node_port, external] {
        world.await_failure(outside, target, is_refused);
    }
    world.await_failure(client, tcp(IP, 80), is_refused);
    // Endpoints elsewhere only.
    world.server.put(local.clone());
    world
        .server
        .put(slice("web", "4", &[ready(addresses::POD_D)]));
    for target in [node_port, external] {
        world.await_failure(outside, target, is_silent);
        // For clients of this node, the policy is Cluster.
        world.await_pods(client, target, &["pod-d"]);
    }
    world.await_pods(client, tcp(IP, 80), &["pod-d"]);
    // One here, which is on its way out: the only one of the Local set.
    let both = [ready(addresses::POD_D), terminating(addresses::POD_A)];
    world.server.put(slice("web", "4", &both));
    world.await_pods(outside, node_port, &["pod-a"]);
    world.await_pods(client, tcp(IP, 80), &["pod-d"]);
    // None at all for processes and pods of this node.
    world
        .server
        .put(and(web.clone(), "/spec", "internalTrafficPolicy", "Local"));
    world
        .server
        .put(slice("web", "4", &[ready(addresses::POD_D)]));
    world.await_failure(client, tcp(IP, 80), is_silent);
    world.await_pods(outside, external, &["pod-d"]);
    world.server.put(slice("web", "4", &[]));
    world.await_failure(client, tcp(IP, 80), is_refused);
}

#[test]
fn an_unnamed_port_and_one_number_under_two_protocols_are_served() {
    let Some(world) = World::new() else {
        return;
    };
    let unnamed = json!([{ "port": 80, "protocol": "TCP" }]);
    world
        .server
        .put(with(service("one", "10.96.0.11"), "/spec/ports", unnamed));
    let pods = slice("one", "4", &[ready(addresses::POD_A)]);
    world.server.put(with(pods, "/ports/0/name", ""));
    let two = json!([
        { "name": "tcp", "port": 53, "protocol": "TCP" },
        { "name": "udp", "port": 53, "protocol": "UDP" },
    ]);
    world
        .server
        .put(with(service("two", "10.96.0.12"), "/spec/ports", two));
    for (protocol, pod) in [("tcp", addresses::POD_A), ("udp", addresses::POD_B)] {
        let pods = with(
            slice("two", protocol, &[ready(pod)]),
            "/ports/0/name",
            protocol,
        );
        world
            .server
            .put(with(pods, "/ports/0/protocol", protocol.to_uppercase()));
    }
    let client = world.pod();
    world.await_pods(client, tcp("10.96.0.11", 80), &["pod-a"]);
    world.await_pods(client, tcp("10.96.0.12", 53), &["pod-a"]);
    world.await_pods(
        client,
        Target::udp("10.96.0.12:53".parse().unwrap()),
        &["pod-b"],
    );
}

#[test]
fn a_balancers_address_is_captured_for_its_ranges_unless_it_is_a_proxy() {
    let Some(world) = World::new() else {
        return;
    };
    let vip = "203.0.113.9";
    let ingress =
        |mode: &str| json!({ "loadBalancer": { "ingress": [{ "ip": vip, "ipMode": mode }] } });
    let balanced = |mode: &str, ranges: Value| {
        let web = with(service("web", IP), "/spec/type", "LoadBalancer");
        let web = and(web, "/spec", "loadBalancerSourceRanges", ranges);
        and(web, "", "status", ingress(mode))
    };
    let outside = world.sandbox.outside();
    world
        .server
        .put(slice("web", "4", &[ready(addresses::POD_A)]));
    world.server.put(balanced("VIP", json!([])));
    world.await_pods(outside, tcp(vip, 80), &["pod-a"]);
    world.server.put(balanced("VIP", json!(["192.0.2.0/24"])));
    world.await_failure(outside, tcp(vip, 80), is_silent);
    for open in [
        json!([format!(" {}/32", addresses::OUTSIDE)]),
        json!(["192.0.2.0/24", "0.0.0.0/0"]),
        json!(["2001:db8::/32"]),
    ] {
        world.server.put(balanced("VIP", open));
        world.await_pods(outside, tcp(vip, 80), &["pod-a"]);
        world.server.put(balanced("VIP", json!(["192.0.2.0/24"])));
        world.await_failure(outside, tcp(vip, 80), is_silent);
    }
    world.server.put(balanced("Proxy", json!([])));
    let expected: Vec<String> = vec![format!("{IP}:80/TCP"), "[fd00:10:96::10]:80/TCP".into()];
    let found = || -> Vec<String> { world.frontends().into_keys().collect() };
    let left = shunt_tests::wait_until(
        "the balancer's address is left alone",
        crate::world::SOON,
        || (found() == expected).then_some(()),
    );
    left.unwrap_or_else(|error| panic!("{error}: {:?}", found()));
}

#[test]
fn the_older_of_two_services_has_what_both_want() {
    let made = |name: &str, ip: &str, day: u8| {
        let when = format!("2026-01-{day:02}T00:00:00Z");
        let web = and(
            service(name, ip),
            "/spec",
            "externalIPs",
            json!(["203.0.113.7"]),
        );
        with(web, "/metadata/creationTimestamp", when)
    };
    let Some(world) = World::with(&[], |server| {
        server.put(made("a-newer", "10.96.0.11", 2));
        server.put(made("b-older", "10.96.0.12", 1));
        server.put(slice("a-newer", "4", &[ready(addresses::POD_A)]));
        server.put(slice("b-older", "4", &[ready(addresses::POD_B)]));
    }) else {
        return;
    };
    let outside = world.sandbox.outside();
    world.await_pods(outside, tcp("203.0.113.7", 80), &["pod-b"]);
    let conflicts = world.shunt("status")["conflicts"].clone();
    assert_eq!(conflicts[0]["waiting"], "default/a-newer", "{conflicts}");
    world.server.delete(&made("b-older", "10.96.0.12", 1));
    world.await_pods(outside, tcp("203.0.113.7", 80), &["pod-a"]);
}

#[test]
fn what_cannot_be_translated_is_shown() {
    let Some(world) = World::new() else {
        return;
    };
    let web = and(
        service("web", IP),
        "/spec",
        "externalIPs",
        json!(["nonsense"]),
    );
    world.server.put(web.clone());
    world
        .server
        .put(slice("web", "4", &[ready(addresses::POD_A)]));
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-a"]);
    let expected = json!([{
        "service": "default/web",
        "reasons": ["spec.externalIPs: `nonsense` is not an IP address"],
    }]);
    world.await_source("it is shown", |source| source["untranslated"] == expected);
    let text = world.status_text();
    assert!(text.contains("`nonsense` is not an IP address"), "{text}");
    world.server.put(service("web", IP));
    world.await_source("it is gone", |source| source["untranslated"] == json!([]));
}

/// The Service `web` at this port, with external addresses.
fn at_port(port: u16, external: &[&str]) -> Value {
    let web = with(service("web", IP), "/spec/ports/0/port", port);
    and(web, "/spec", "externalIPs", json!(external))
}

#[test]
fn an_external_address_of_the_node_is_left_out_where_the_cluster_listens() {
    const KUBELET: u16 = 10_250;
    const CONTROL: &str = "198.51.100.9";
    let here = addresses::NODE.to_string();
    let prepare = |server: &shunt_tests::ApiServer| {
        server.put(node("node-1", addresses::NODE));
        server.put(at_port(KUBELET, &[&here, "203.0.113.7"]));
        server.put(slice("web", "4", &[ready(addresses::POD_A)]));
        server.put(slice("kubernetes", "1", &[ready(CONTROL.parse().unwrap())]));
    };
    let Some(world) = World::with(&[], prepare) else {
        return;
    };
    let outside = world.sandbox.outside();
    world.await_pods(outside, tcp("203.0.113.7", KUBELET), &["pod-a"]);
    world.await_failure(outside, tcp(&here, KUBELET), is_refused);
    let expected = json!([{ "service": "default/web", "reasons": [format!(
        "spec.externalIPs: {here} is left out, as a kubelet listens there at the service's port 10250: choose \
         another port, or see --protect-host-ports"
    )] }]);
    world.await_source("it is shown", |source| source["untranslated"] == expected);
    shunt_tests::wait_until("its users are told", crate::world::SOON, || {
        let events = world.server.events().into_iter();
        let mut told = events.filter(|event| event["reason"] == "NotTranslated");
        told.find(|event| event["regarding"]["name"] == "web")
    })
    .unwrap();
    // At another port it is as any address, and the API server's is at its own.
    world.server.put(at_port(SERVED, &[&here, CONTROL]));
    world.await_pods(outside, tcp(&here, SERVED), &["pod-a"]);
    let expected = format!(
        "spec.externalIPs: {CONTROL} is left out, as the API server listens there at the service's port {SERVED}: \
         choose another port, or see --protect-host-ports"
    );
    world.await_source("it is shown", |source| {
        source["untranslated"][0]["reasons"] == json!([expected])
    });
    let taken = |world: &World| {
        let frontends = world.frontends();
        frontends.keys().any(|frontend| frontend.contains(CONTROL))
    };
    assert!(!taken(&world));
    // The API server goes elsewhere.
    let elsewhere = ready("198.51.100.10".parse().unwrap());
    world.server.put(slice("kubernetes", "1", &[elsewhere]));
    world.await_source("it is taken", |source| source["untranslated"] == json!([]));
    assert!(taken(&world));
    drop(world);

    let Some(world) = World::with(&["--protect-host-ports=false"], prepare) else {
        return;
    };
    let outside = world.sandbox.outside();
    world.await_pods(outside, tcp(&here, KUBELET), &["pod-a"]);
}
