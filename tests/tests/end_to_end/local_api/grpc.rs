//! Checks that ask a server of gRPC for its health.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use serde_json::{Value, json};
use shunt_tests::wait_until;
use tokio::{net, runtime::Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic_health::{ServingStatus, server::HealthReporter};

use super::place::{Place, SOON};

/// A server of gRPC in the node, of which each service may be well or not.
struct Health {
    address: SocketAddr,
    reporter: HealthReporter,
    runtime: Runtime,
}

impl Health {
    fn start(place: &Place) -> Self {
        let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let listener = place.sandbox.node().enter(|| TcpListener::bind(local));
        let listener = listener.unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let runtime = Runtime::new().unwrap();
        let (reporter, service) = tonic_health::server::health_reporter();
        let inside = runtime.enter();
        let incoming = TcpListenerStream::new(net::TcpListener::from_std(listener).unwrap());
        drop(inside);
        let server = Server::builder().add_service(service);
        runtime.spawn(server.serve_with_incoming(incoming));
        Self {
            address,
            reporter,
            runtime,
        }
    }

    fn set(&self, service: &str, status: ServingStatus) {
        let set = self.reporter.set_service_status(service, status);
        self.runtime.block_on(set);
    }
}

fn is(place: &Place, check: &str, status: &str, output: &str) {
    let mut last = Value::Null;
    let found = wait_until(&format!("check {check} is {status}"), SOON, || {
        last = place.kept.get("checks")[check].clone();
        let said = last["Output"].as_str().unwrap_or_default();
        (last["Status"] == status && said.contains(output)).then_some(())
    });
    if let Err(error) = found {
        panic!("{error:#}: {last}");
    }
}

#[test]
fn a_check_follows_what_a_server_of_grpc_says_of_itself() {
    let Some(place) = Place::new() else {
        return;
    };
    let health = Health::start(&place);
    let check = |id: &str, target: String| json!({ "CheckID": id, "Name": id, "GRPC": target, "Interval": "100ms", "Timeout": "5s" });
    let address = health.address;
    let mut web = place.web("pod-a");
    web["Checks"] = json!([
        check("server", address.to_string()),
        check("service", format!("{address}/web")),
    ]);
    place.kept.register(&web);
    is(&place, "server", "passing", "success");
    // The server does not know that service.
    is(&place, "service", "critical", "code 5");
    place.is_served_by(&[]);
    health.set("web", ServingStatus::Serving);
    is(&place, "service", "passing", "success");
    place.is_served_by(&["pod-a"]);
    health.set("web", ServingStatus::NotServing);
    is(&place, "service", "critical", "NOT_SERVING");
    place.is_served_by(&[]);
    health.set("web", ServingStatus::Serving);
    place.is_served_by(&["pod-a"]);
    drop(health);
    is(&place, "server", "critical", "gRPC check");
    place.is_served_by(&[]);
}

#[test]
fn a_server_of_something_else_is_critical() {
    let Some(place) = Place::new() else {
        return;
    };
    // The pod's server speaks no HTTP/2.
    let mut web = place.web("pod-a");
    let target = place.backend("pod-a").to_string();
    web["Check"] = json!({ "GRPC": target, "Interval": "100ms", "Timeout": "1s" });
    place.kept.register(&web);
    is(&place, "service:pod-a", "critical", " ");
    let refused = json!({
        "Name": "tls", "Check": { "GRPC": target, "GRPCUseTLS": true, "Interval": "1s" },
    });
    let answer = place
        .kept
        .ask("PUT", "/v1/agent/service/register", &refused.to_string());
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("over TLS"), "{}", answer.body);
}
