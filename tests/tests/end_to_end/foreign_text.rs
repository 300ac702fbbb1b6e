//! Text that others chose, wherever it is shown.

use std::thread;

use serde_json::{Value, json};
use shunt_tests::{Ack, Continuous, Transport, addresses};

use crate::{
    command::shunt_at,
    service::Service,
    world::{REQUEST, World},
};

/// It ends the line, moves the cursor and clears the screen, and turns round what follows.
const NAME: &str = "web\u{202e}\u{2066}x";
const VALUE: &str = "x\nline 99: Resync: 1 added\u{1b}[2J\u{9b}2J\u{2028}y";
const SHOWN_NAME: &str = r"default/web\u{202e}\u{2066}x";
const SHOWN_VALUE: &str = r"x\nline 99: Resync: 1 added\u{1b}[2J\u{9b}2J\u{2028}y";

/// Fails if a line of `text` has a character that is not simply shown.
#[track_caller]
fn is_plain(what: &str, text: &str) {
    for line in text.split('\n') {
        let odd = line.chars().find(|c| {
            c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(odd, None, "{what}: {line:?}");
        assert!(!line.starts_with("line 99"), "{what}: {line:?}");
    }
}

#[test]
fn foreign_text_forges_no_line_and_commands_no_terminal() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let mut event: Value = serde_json::from_str(&service.event("AddService")).unwrap();
    event["service"]["id"]["name"] = json!(NAME);
    world.apply(&event.to_string());

    // Refused by its check: the log, and the status's last error.
    let mut wrong = event.clone();
    wrong["service"]["cluster_ips"] = json!([VALUE]);
    let Ack::Refused(reason) = world.agent.apply(&wrong.to_string()).unwrap() else {
        panic!("{VALUE} is no address");
    };
    assert!(reason.contains(SHOWN_VALUE), "{reason}");
    let status = world.shunt(&["status"]).clean();
    assert!(status.contains(SHOWN_VALUE), "{status}");
    is_plain("status", &status);

    // Refused by the agent that a call reaches: the error of gRPC.
    let mut heavy = event.clone();
    for port in heavy["service"]["backends"]
        .as_object_mut()
        .unwrap()
        .values_mut()
    {
        let backend = json!({ "ip": "10.1.1.3", "port": 1, "weight": u32::MAX });
        let other = json!({ "ip": "10.1.1.4", "port": 1, "weight": u32::MAX });
        *port = json!([backend, other]);
    }
    let refused = world.apply_lines(&[&heavy.to_string()]);
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(refused.errors.contains(SHOWN_NAME), "{refused:?}");
    is_plain("errors of apply", &refused.errors);
    is_plain("output of apply", &refused.output);

    let services = world.shunt(&["services"]).clean();
    assert!(services.contains(SHOWN_NAME), "{services}");
    is_plain("services", &services);
    let services = world.shunt(&["services", "-o", "json"]);
    is_plain("services as JSON", &services.output);
    let named = |frontend: &Value| frontend["service"] == format!("default/{NAME}");
    let services = services.json();
    assert!(services.as_array().unwrap().iter().all(named), "{services}");

    let (from, to) = (
        addresses::POD_C.to_string(),
        service.cluster_ip().address().to_string(),
    );
    for form in ["table", "json"] {
        let traced = world.shunt(&["trace", "--from", &from, "--to", &to, "-o", form]);
        is_plain("trace", &traced.clean());
    }
    for form in ["line", "json"] {
        let socket = world.agent.socket().to_owned();
        let watching = ["monitor", "--count", "1", "-o", form];
        let watched = thread::spawn(move || shunt_at(&socket, &watching, ""));
        let requests = Continuous::start(world.client_pod(), service.cluster_ip(), REQUEST);
        let watched = watched.join().unwrap().clean();
        drop(requests);
        assert!(watched.contains("default/web"), "{watched}");
        is_plain("monitor", &watched);
    }

    let log = world.agent.log();
    assert!(log.contains(SHOWN_NAME), "{log}");
    assert!(log.contains(SHOWN_VALUE), "{log}");
    is_plain("log", &log);
}
