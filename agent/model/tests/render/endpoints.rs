//! The check for an endpoint of a service port, usable or not.

use shunt_model::{FrontendKey, Protocol};

use crate::world::{World, delete, service, update};

/// Returns whether the service of a frontend has the endpoint 10.1.1.3:8080.
fn has(world: &World, address: &str, port: u16) -> bool {
    let key = FrontendKey {
        address: address.parse().unwrap(),
        port,
        protocol: Protocol::Tcp,
    };
    let endpoint = "10.1.1.3:8080".parse().unwrap();
    world.renderer.has_endpoint(key, endpoint)
}

/// The service with these endpoints.
fn with(endpoints: &str) -> String {
    service(
        "web",
        &format!(
            r#""cluster_ips":["10.96.0.1"],"ports":{{"http":{{"protocol":"TCP","port":80,"node_port":30080}}}},"backends":{{"http":[{endpoints}]}}"#
        ),
    )
}

#[test]
fn an_endpoint_is_there_whatever_it_can_do_until_the_events_leave_it_out() {
    let mut world = World::synced(&["192.168.16.10"], &[]);
    assert!(!has(&world, "10.96.0.1", 80), "no service yet");
    for state in ["Ready", "Terminating", "NotReady"] {
        let endpoint = format!(r#"{{"ip":"10.1.1.3","port":8080,"state":"{state}"}}"#);
        world.tell(&update(&with(&endpoint)));
        assert!(has(&world, "10.96.0.1", 80), "{state}");
        assert!(has(&world, "192.168.16.10", 30080), "{state}");
        assert!(
            has(&world, "127.0.0.1", 30080),
            "{state}: the node port at loopback"
        );
    }
    assert!(!has(&world, "10.96.0.1", 81), "no such frontend");
    assert!(
        !has(&world, "127.0.0.1", 80),
        "the ClusterIP's port is no node port"
    );
    assert!(
        !has(&world, "::1", 30080),
        "the node has no IPv6 address here"
    );

    world.tell(&update(&with(r#"{"ip":"10.1.1.3","port":8081}"#)));
    assert!(
        !has(&world, "10.96.0.1", 80),
        "another port of the same address"
    );
    assert!(!has(&world, "127.0.0.1", 30080));

    world.tell(&update(&with(r#"{"ip":"10.1.1.3","port":8080}"#)));
    world.tell(&delete("web"));
    assert!(!has(&world, "10.96.0.1", 80), "the service is gone");
}
