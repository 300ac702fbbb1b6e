//! A listener for the health check of each service that has one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroU16,
    sync::Arc,
    time::Instant,
};

use hyper::{
    Request,
    body::Incoming,
    header::{HeaderName, HeaderValue},
};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use shunt_http::{Answer, Answers, Door, Peer, Try, answer, verdict, with_header};
use shunt_model::ServiceId;
use shunt_runtime::{HealthChecks, Listener, Reports};
use tokio::{sync::watch, task::JoinSet};

const WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");

/// Keeps a listener for each health check, for ever. One stays as it is as long as its port and the
/// addresses of the node do: the number of endpoints is looked up for each answer.
pub(crate) async fn serve(reports: Arc<Reports>) {
    let mut checks = reports.health_checks();
    let mut open: BTreeMap<ServiceId, Open> = BTreeMap::new();
    loop {
        let wanted = places(&checks.borrow_and_update());
        let gone = open.extract_if(.., |service, open| wanted.get(service) != Some(&open.place));
        for (_, Open { mut task, .. }) in gone.collect::<Vec<_>>() {
            // Before others open: one of them may have its port.
            task.shutdown().await;
        }
        for (service, place) in wanted {
            if open.contains_key(&service) {
                continue;
            }
            let answers = ServiceHealth {
                service: service.clone(),
                checks: checks.clone(),
                reports: Arc::clone(&reports),
            };
            let listener = Listener::HealthCheck(service.clone());
            let tries = place.addresses().into_iter().map(Try::at).collect();
            let door = Door::new(listener, tries, answers, Arc::clone(&reports));
            let mut task = JoinSet::new();
            task.spawn(door.keep());
            open.insert(service, Open { place, task });
        }
        if checks.changed().await.is_err() {
            return;
        }
    }
}

/// A listener that is kept until this is dropped.
#[derive(Debug)]
struct Open {
    place: Place,
    task: JoinSet<()>,
}

/// Address at which a health check is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    port: NonZeroU16,
    addresses: BTreeSet<IpAddr>,
}

impl Place {
    fn addresses(&self) -> Vec<SocketAddr> {
        let at = |address: IpAddr| SocketAddr::new(address, self.port.get());
        if self.addresses.is_empty() {
            return vec![at(Ipv4Addr::UNSPECIFIED.into())];
        }
        self.addresses.iter().copied().map(at).collect()
    }
}

fn places(checks: &HealthChecks) -> BTreeMap<ServiceId, Place> {
    let HealthChecks {
        addresses,
        services,
    } = checks;
    let place = |port| Place {
        port,
        addresses: addresses.clone(),
    };
    let services = services.iter();
    services
        .map(|(service, check)| (service.clone(), place(check.port)))
        .collect()
}

/// Answers for one service, whatever is asked.
#[derive(Debug)]
struct ServiceHealth {
    service: ServiceId,
    checks: watch::Receiver<HealthChecks>,
    reports: Arc<Reports>,
}

impl Answers for ServiceHealth {
    async fn answer(&self, _request: Request<Incoming>, _peer: Peer) -> Answer {
        let check = self.checks.borrow().services.get(&self.service).copied();
        let local_endpoints = check.map_or(0, |check| check.local_endpoints);
        let healthy = self.reports.health().is_healthy(Instant::now());
        respond(&self.service, local_endpoints, healthy)
    }
}

/// Content of an answer. The order of the fields is that of the answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    service: Name<'a>,
    local_endpoints: u32,
    service_proxy_healthy: bool,
}

#[derive(Serialize)]
struct Name<'a> {
    namespace: &'a str,
    name: &'a str,
}

fn respond(service: &ServiceId, local_endpoints: u32, healthy: bool) -> Answer {
    let ServiceId { namespace, name } = service;
    let report = Report {
        service: Name { namespace, name },
        local_endpoints,
        service_proxy_healthy: healthy,
    };
    let mut body = Vec::new();
    let tabs = PrettyFormatter::with_indent(b"\t");
    let written = report.serialize(&mut Serializer::with_formatter(&mut body, tabs));
    debug_assert!(written.is_ok(), "text and numbers can be written");
    let body = String::from_utf8(body).unwrap_or_default();
    let status = verdict(local_endpoints > 0 && healthy);
    let answer = answer(status, "application/json", body);
    with_header(answer, WEIGHT, HeaderValue::from(local_endpoints))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, net::TcpListener};

    use http_body_util::BodyExt as _;
    use shunt_runtime::{ByFamily, HealthCheck, HealthCheckChange, ListenerState, Pending};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        time::{Duration, timeout},
    };

    use super::*;

    /// A port that is free just now.
    fn free_port() -> NonZeroU16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap()
    }

    fn web() -> ServiceId {
        ServiceId::new("default", "web")
    }

    fn set(reports: &Reports, port: NonZeroU16, local_endpoints: u32) {
        let check = HealthCheck {
            port,
            local_endpoints,
        };
        reports.apply(HealthCheckChange::Of(web(), Some(check)));
    }

    /// Returns the answer, or nothing if there is none.
    async fn ask(stream: &mut TcpStream) -> Option<String> {
        stream
            .write_all(b"GET /any HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .ok()?;
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).await.ok()?;
        answer.truncate(length);
        (length > 0).then(|| String::from_utf8(answer).unwrap())
    }

    async fn status(address: &str, port: NonZeroU16) -> Option<u16> {
        let mut stream = TcpStream::connect((address, port.get())).await.ok()?;
        let answer = ask(&mut stream).await?;
        answer.split(' ').nth(1)?.parse().ok()
    }

    /// Waits until the listener is as wanted.
    async fn listener(reports: &Reports, wanted: fn(&ListenerState) -> bool) {
        let mut listeners = reports.listeners();
        let of_web = Listener::HealthCheck(web());
        let is_there = listeners.wait_for(|all| all.get(&of_web).is_some_and(wanted));
        let soon = Duration::from_secs(20);
        timeout(soon, is_there).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_port_stays_open_whatever_becomes_of_endpoints() {
        let reports = Arc::new(Reports::default());
        let server = tokio::spawn(serve(Arc::clone(&reports)));
        let port = free_port();
        set(&reports, port, 2);
        listener(&reports, |state| state.problem.is_none()).await;
        assert_eq!(status("127.0.0.1", port).await, Some(200));
        let v6 = status("::1", port).await;
        assert!(
            v6.is_none_or(|status| status == 200),
            "one listener for both families"
        );

        let mut kept = TcpStream::connect(("127.0.0.1", port.get())).await.unwrap();
        for (endpoints, code) in [(2, "200 OK"), (0, "503 Service"), (1, "200 OK")] {
            set(&reports, port, endpoints);
            let answer = ask(&mut kept).await.expect("the connection goes on");
            assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{answer}");
            let weight = format!("x-load-balancing-endpoint-weight: {endpoints}\r\n");
            assert!(answer.contains(&weight), "{answer}");
        }
        let long_ago = Instant::now().checked_sub(Duration::from_mins(1));
        reports.set_pending(Pending {
            oldest: ByFamily {
                v4: long_ago,
                v6: None,
            },
            ..Pending::default()
        });
        assert_eq!(
            status("127.0.0.1", port).await,
            Some(503),
            "the agent does not keep up"
        );

        let other = free_port();
        set(&reports, other, 1);
        listener(&reports, |state| state.problem.is_none()).await;
        let gone = async {
            while status("127.0.0.1", port).await.is_some()
                || status("127.0.0.1", other).await.is_none()
            {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), gone)
            .await
            .expect("the port has moved");
        reports.apply(HealthCheckChange::All(BTreeMap::new()));
        let gone = async {
            while status("127.0.0.1", other).await.is_some() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), gone)
            .await
            .expect("the service has gone");
        assert_eq!(*reports.listeners().borrow(), BTreeMap::new());
        server.abort();
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_tried_again() {
        let holder = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = NonZeroU16::new(holder.local_addr().unwrap().port()).unwrap();
        let reports = Arc::new(Reports::default());
        let server = tokio::spawn(serve(Arc::clone(&reports)));
        set(&reports, port, 1);
        listener(&reports, |state| state.problem.is_some()).await;
        drop(holder);
        listener(&reports, |state| state.problem.is_none()).await;
        assert_eq!(status("127.0.0.1", port).await, Some(200));
        server.abort();
    }

    #[tokio::test]
    async fn the_answer_is_kube_proxys() {
        let service = ServiceId::new("a", "b");
        for (local_endpoints, healthy, status) in [
            (2, true, 200),
            (0, true, 503),
            (2, false, 503),
            (0, false, 503),
        ] {
            let answer = respond(&service, local_endpoints, healthy);
            assert_eq!(answer.status(), status, "{local_endpoints}, {healthy}");
            let headers = answer.headers();
            let weight = local_endpoints.to_string();
            for (name, value) in [
                ("content-type", "application/json"),
                ("x-content-type-options", "nosniff"),
                ("x-load-balancing-endpoint-weight", &weight),
            ] {
                assert_eq!(headers[name], value);
            }
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let expected = format!(
                "{{\n\t\"service\": {{\n\t\t\"namespace\": \"a\",\n\t\t\"name\": \"b\"\n\t}},\n\
                 \t\"localEndpoints\": {local_endpoints},\n\t\"serviceProxyHealthy\": {healthy}\n}}"
            );
            assert_eq!(String::from_utf8_lossy(&body), expected);
        }
    }
}
