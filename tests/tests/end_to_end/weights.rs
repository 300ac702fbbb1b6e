//! Shares of new connections.

use std::net::SocketAddr;

use shunt_tests::{Tally, Transport};

use crate::{service::Service, world::World};

const CONNECTIONS: u32 = 2_000;

/// Limit of a share's deviation, in standard deviations: exceeded by chance in one of 2.6 * 10^7 runs.
const DEVIATIONS: f64 = 5.5;

/// The number of connections that a backend got must fit its share.
fn assert_share(tally: &Tally, backend: SocketAddr, share: f64) {
    let connections = f64::from(CONNECTIONS);
    let expected = connections * share;
    let bound = DEVIATIONS * (connections * share * (1.0 - share)).sqrt();
    let got = f64::from(u32::try_from(tally.of(backend)).unwrap());
    assert!(
        (got - expected).abs() <= bound,
        "{backend} must get {expected} of {CONNECTIONS} connections, give or take {bound:.0}, \
         but got {got}: {tally:#?}"
    );
}

#[test]
fn weights_one_to_three_share_new_connections_so() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some(mut world) = World::new() else {
            return;
        };
        let (one, three) = (world.backend("pod-a"), world.backend("pod-b"));
        let service = Service::new(transport).weighted(one, 1).weighted(three, 3);
        world.add(&service);
        let tally = world.ask_from_pod(service.cluster_ip(), CONNECTIONS);
        assert_share(&tally, one, 0.25);
        assert_share(&tally, three, 0.75);
    }
}

#[test]
fn weight_zero_gets_nothing() {
    let Some(mut world) = World::new() else {
        return;
    };
    let (none, all) = (world.backend("pod-a"), world.backend("pod-b"));
    let service = Service::new(Transport::Tcp)
        .weighted(none, 0)
        .weighted(all, 1);
    world.add(&service);
    let tally = world.ask_from_pod(service.cluster_ip(), 200);
    assert_eq!(
        tally.backends(),
        [all],
        "a backend of weight 0 receives no new connection"
    );
}

#[test]
fn the_largest_weights_share_evenly() {
    let Some(mut world) = World::new() else {
        return;
    };
    let pods = ["pod-a", "pod-b", "pod-d"].map(|pod| world.backend(pod));
    let heavy = |service: Service, pod| service.weighted(pod, u32::MAX / 3);
    let service = pods.into_iter().fold(Service::new(Transport::Udp), heavy);
    world.add(&service);
    let tally = world.ask_from_pod(service.cluster_ip(), CONNECTIONS);
    for pod in pods {
        assert_share(&tally, pod, 1.0 / 3.0);
    }
}
