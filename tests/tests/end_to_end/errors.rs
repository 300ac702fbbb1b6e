//! Events that are wrong.

use serde_json::{Value, json};
use shunt_tests::{Ack, Transport};

use crate::{
    service::Service,
    world::{REQUEST, World},
};

/// Changes one thing of a service, by JSON pointer.
fn with(service: &Service, pointer: &str, value: Value) -> String {
    let mut event: Value = serde_json::from_str(&service.event("UpdateService")).unwrap();
    *event.pointer_mut(pointer).unwrap() = value;
    event.to_string()
}

#[test]
fn a_bad_line_is_named_and_changes_nothing() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let service = Service::new(Transport::Tcp).backend(a);
    world.add(&service);
    let mut open = world
        .client_pod()
        .enter(|| service.cluster_ip().connect().unwrap());

    // What each of them would do, if it had an effect, is to send connections to pod-b.
    let wrong = Service::new(Transport::Tcp).backend(b);
    let web = "default/web";
    let cases: [(String, &[&str]); 6] = [
        ("{".to_owned(), &[]),
        (
            with(&wrong, "/event", json!("RenameService")),
            &["RenameService"],
        ),
        (
            with(&wrong, "/service/ports/main/port", json!(0)),
            &[web, "port"],
        ),
        (
            with(&wrong, "/service/cluster_ips/0", json!("10.96.0.256")),
            &[web, "cluster_ips"],
        ),
        (
            with(&wrong, "/service/backends/main/0/ip", json!("here")),
            &[web, "ip"],
        ),
        (
            with(&wrong, "/service/backends/main/0", json!({"colour": "red"})),
            &["colour"],
        ),
    ];
    for (line, names) in cases {
        match world.agent.apply(&line).unwrap() {
            Ack::Refused(reason) => {
                for name in names {
                    assert!(
                        reason.contains(name),
                        "{line}\nmust be refused naming {name}: {reason}"
                    );
                }
            }
            applied @ Ack::Applied { .. } => panic!("{line}\nmust be refused, but {applied:?}"),
        }
        let tally = world.ask_from_pod(service.cluster_ip(), 20);
        assert_eq!(tally.backends(), [a], "after {line}\nall must be as before");
        open.echo(REQUEST).unwrap();
    }
    world.update(&wrong);
    let tally = world.ask_from_pod(service.cluster_ip(), 20);
    assert_eq!(
        tally.backends(),
        [b],
        "the next right event must take effect"
    );
}
