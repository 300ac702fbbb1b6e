//! A candidate against a server in this process.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    thread,
};

use hyper::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::{runtime::Builder, time::sleep};
use tower::service_fn;

use super::*;

/// The Lease as it is, and whether the server answers.
#[derive(Default)]
struct Server {
    lease: Value,
    is_silent: bool,
}

fn client(server: &Arc<Mutex<Server>>) -> Client {
    let server = Arc::clone(server);
    let service = service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            while server.lock().unwrap().is_silent {
                sleep(Duration::from_millis(10)).await;
            }
            let method = request.method().clone();
            let body = request.into_body().collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, answer) = answer(&mut server.lock().unwrap().lease, &method, body);
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = code.try_into().unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    Client::new(service, "default")
}

fn answer(lease: &mut Value, method: &Method, body: Value) -> (u16, Value) {
    let refused = |code: u16, reason: &str| {
        let status = json!({
            "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "m",
        });
        (code, status)
    };
    let version = lease["metadata"]["resourceVersion"].clone();
    match *method {
        Method::GET if lease.is_null() => return refused(404, "NotFound"),
        Method::GET => return (200, lease.clone()),
        Method::POST => *lease = body,
        Method::PATCH if body["metadata"]["resourceVersion"] != version => {
            return refused(409, "Conflict");
        }
        Method::PATCH => {
            for (name, value) in body["spec"].as_object().unwrap() {
                lease["spec"][name] = value.clone();
            }
        }
        _ => panic!("{method}"),
    }
    let version = version.as_str().map_or(0, |text| text.parse().unwrap());
    lease["metadata"]["resourceVersion"] = (version + 1_u32).to_string().into();
    (200, lease.clone())
}

#[test]
fn a_leader_without_answers_ends_its_term_and_one_that_ends_gives_the_lease_back() {
    let server = Arc::new(Mutex::new(Server::default()));
    let options = LeaseOptions {
        namespace: None,
        name: "l".to_owned(),
        identity: "me".to_owned(),
        duration: Duration::from_secs(1),
        grace: Duration::from_millis(500),
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut election = Election::start(client(&server), "kube-system", &options);
        let ballot = Ballot::new(
            client(&server),
            "kube-system",
            &options,
            election.term.clone(),
        );
        election.term.changed().await.unwrap();
        assert!(election.term.borrow_and_update().is_now());
        assert!(ballot.is_won().await.unwrap());

        server.lock().unwrap().is_silent = true;
        election.term.changed().await.unwrap();
        assert!(!election.term.borrow_and_update().is_now());
        server.lock().unwrap().is_silent = false;
        election.term.changed().await.unwrap();
        assert!(ballot.is_won().await.unwrap());

        // It was suspended for longer than its term: what it believes and what the Lease has is not true any more.
        thread::sleep(options.duration);
        assert!(!ballot.is_won().await.unwrap());

        election.withdraw().await;
        let spec = server.lock().unwrap().lease["spec"].clone();
        assert_eq!(spec["holderIdentity"], "");
        assert_eq!(spec["leaseDurationSeconds"], 1);
        assert!(!ballot.is_won().await.unwrap());
    });
}
