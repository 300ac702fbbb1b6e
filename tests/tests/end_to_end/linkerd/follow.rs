//! Messages to clients that follow a destination.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shunt_tests::patience;
use tokio::time::sleep;

use crate::{
    http::ASKED,
    linkerd::{
        client::{Client, block_on},
        services::{Served, pod, service, web},
    },
    world::World,
};

const NAME: &str = "web.default.svc.cluster.local:80";
const ADDRESS: &str = "10.96.0.10:80";

/// `web` with these endpoints.
fn tell(world: &mut World, endpoints: &[Value]) {
    let service = service("web", &["10.96.0.10"], 80, endpoints);
    let event = json!({ "event": "UpdateService", "service": service });
    world.apply(&event.to_string());
}

fn workloads(world: &mut World, new: &[Value], gone: &[&str]) {
    let gone = gone
        .iter()
        .map(|name| json!({ "kind": "Pod", "namespace": "default", "name": name }));
    let gone: Vec<_> = gone.collect();
    let event = json!({ "event": "UpdateWorkloads", "workloads": new, "gone": gone });
    world.apply(&event.to_string());
}

#[test]
fn streams_and_their_messages_are_counted() {
    let Some(((mut world, _served), place)) = Served::world_with(&ASKED, &[]) else {
        return;
    };
    let metric = |world: &World, name: &str, method: &str| {
        let series = format!("shunt_linkerd_{name}{{method=\"{method}\"}}");
        let value = world.metric(&series);
        value.unwrap_or_else(|| panic!("no {series}"))
    };
    let [a, b] = web();
    block_on(async {
        let mut client = Client::at(&place).await;
        let mut updates = client.get(NAME, "").await.unwrap();
        let other = client.get(NAME, "").await.unwrap();
        let mut profiles = client.profile(NAME).await.unwrap();
        assert_eq!(updates.next().await, "missing");
        assert_eq!(profiles.next().await, "unknown");
        tell(&mut world, &[a, b]);
        assert_eq!(updates.next().await, "+10.1.1.3:8080 +10.1.2.3:8080");
        assert_eq!(metric(&world, "streams", "Get").to_string(), "2");
        assert_eq!(metric(&world, "streams", "GetProfile").to_string(), "1");
        assert!(metric(&world, "messages_total", "Get") >= 3.0);
        assert!(metric(&world, "messages_total", "GetProfile") >= 1.0);
        drop(other);
        // The agent hears of the end of a stream a little later.
        let deadline = Instant::now() + patience(Duration::from_secs(10));
        while metric(&world, "streams", "Get") > 1.5 {
            assert!(Instant::now() < deadline, "the stream has not ended");
            sleep(Duration::from_millis(10)).await;
        }
        let started = metric(&world, "streams_started_total", "Get");
        assert_eq!(started.to_string(), "2");
    });
}

#[test]
fn new_addresses_come_before_old_ones_go() {
    let Some(((mut world, _served), place)) = Served::world(&[]) else {
        return;
    };
    let [a, b] = web();
    block_on(async {
        let mut client = Client::at(&place).await;
        let mut by_name = client.get(NAME, "").await.unwrap();
        let mut by_address = client.get(ADDRESS, "").await.unwrap();
        assert_eq!(by_name.next().await, "missing");
        assert_eq!(by_address.next().await, "+10.96.0.10:80");

        tell(&mut world, std::slice::from_ref(&a));
        assert_eq!(by_name.next().await, "+10.1.1.3:8080");
        assert_eq!(by_address.next().await, "+10.1.1.3:8080");
        assert_eq!(by_address.next().await, "-10.96.0.10:80");

        tell(&mut world, &[b]);
        for followed in [&mut by_name, &mut by_address] {
            assert_eq!(followed.next().await, "+10.1.2.3:8080");
            assert_eq!(followed.next().await, "-10.1.1.3:8080");
        }
        tell(&mut world, &[]);
        for followed in [&mut by_name, &mut by_address] {
            assert_eq!(followed.next().await, "none");
        }
        let gone =
            json!({ "event": "DeleteService", "id": { "namespace": "default", "name": "web" } });
        world.apply(&gone.to_string());
        assert_eq!(by_name.next().await, "missing");
        assert_eq!(by_address.next().await, "+10.96.0.10:80");

        tell(&mut world, &[a]);
        assert_eq!(by_name.next().await, "+10.1.1.3:8080");
        assert_eq!(by_address.next().await, "+10.1.1.3:8080");
        assert_eq!(by_address.next().await, "-10.96.0.10:80");
    });
}

#[test]
fn an_address_that_goes_to_another_pod_is_added_and_never_removed() {
    let Some(((mut world, served), place)) = Served::world(&[]) else {
        return;
    };
    let [a, _] = web();
    workloads(&mut world, &[pod("web-1", "10.1.1.3")], &[]);
    tell(&mut world, &[a]);
    block_on(async {
        let mut client = Client::at(&place).await;
        let mut of_service = client.get(NAME, "").await.unwrap();
        let mut of_pod = client.get("10.1.1.3:9", "").await.unwrap();
        let mut profiles = client.profile("10.1.1.3:9").await.unwrap();
        assert_eq!(of_service.next().await, "+10.1.1.3:8080(web-1)");
        assert_eq!(of_pod.next().await, "+10.1.1.3:9(web-1)");
        assert_eq!(profiles.next().await, "endpoint 10.1.1.3:9(web-1)");

        workloads(&mut world, &[pod("web-9", "10.1.1.3")], &["web-1"]);
        assert_eq!(of_service.next().await, "+10.1.1.3:8080(web-9)");
        assert_eq!(of_pod.next().await, "+10.1.1.3:9(web-9)");
        assert_eq!(profiles.next().await, "endpoint 10.1.1.3:9(web-9)");

        workloads(&mut world, &[], &["web-9"]);
        assert_eq!(of_service.next().await, "+10.1.1.3:8080");
        assert_eq!(of_pod.next().await, "+10.1.1.3:9");
        assert_eq!(profiles.next().await, "unknown");

        // A follower hears of the agent's end, and the socket goes with it.
        assert!(served.path().exists());
        world.agent.stop().unwrap();
        assert!(!served.path().exists());
    });
}

#[test]
fn a_profile_follows_its_address() {
    let Some(((mut world, _served), place)) = Served::world(&[]) else {
        return;
    };
    block_on(async {
        let mut client = Client::at(&place).await;
        let mut profiles = client.profile(ADDRESS).await.unwrap();
        let mut other_port = client.profile("10.96.0.10:81").await.unwrap();
        assert_eq!(profiles.next().await, "unknown");
        assert_eq!(other_port.next().await, "unknown");

        // Its endpoints are no part of the profile.
        tell(&mut world, &[]);
        tell(&mut world, &web());
        assert_eq!(profiles.next().await, "web.default.svc.cluster.local");
        assert_eq!(other_port.next().await, "nothing");

        let opaque = |port: u16| {
            let mut service = service("web", &["10.96.0.10"], port, &web());
            service["opaque_ports"] = json!(["80"]);
            json!({ "event": "UpdateService", "service": service }).to_string()
        };
        world.apply(&opaque(80));
        assert_eq!(
            profiles.next().await,
            "web.default.svc.cluster.local opaque"
        );
        world.apply(&opaque(81));
        assert_eq!(profiles.next().await, "nothing");
        assert_eq!(other_port.next().await, "web.default.svc.cluster.local");
    });
}
