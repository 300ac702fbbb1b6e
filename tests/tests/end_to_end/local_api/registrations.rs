//! State that is kept, whatever becomes of the agent.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use shunt_tests::{Agent, PinDir, by_length, http_ask, wait_until};

use super::place::{Kept, Place, SOON, tcp};
use crate::world::binary;

/// Number of clients that register services at once.
const CLIENTS: u32 = 8;

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_agent_is_killed() {
    let Some(mut place) = Place::new() else {
        return;
    };
    place.kept.register(&place.web("pod-a"));
    place.is_served_by(&["pod-a"]);
    for round in 0..by_length(2, 20) {
        let acknowledged = Mutex::new(Vec::new());
        let count = AtomicU32::new(0);
        let is_over = AtomicBool::new(false);
        let (kept, agent) = (&place.kept, &place.agent);
        thread::scope(|threads| {
            for client in 0..CLIENTS {
                let (acknowledged, count, is_over) = (&acknowledged, &count, &is_over);
                threads.spawn(move || {
                    for number in 0.. {
                        let id = format!("s{round}-{client}-{number}");
                        let service = json!({ "Name": "storm", "ID": id, "Port": number });
                        let body = service.to_string();
                        let answer = kept.try_ask("PUT", "/v1/agent/service/register", &body);
                        match answer {
                            Ok(answer) if answer.status == 200 => {
                                acknowledged.lock().unwrap().push(id);
                                count.fetch_add(1, Ordering::Relaxed);
                            }
                            _ if is_over.load(Ordering::Relaxed) => return,
                            other => panic!("{other:?}"),
                        }
                    }
                });
            }
            let all = wait_until("registrations", SOON, || {
                (count.load(Ordering::Relaxed) >= 100).then_some(())
            });
            is_over.store(true, Ordering::Relaxed);
            kill(Pid::from_raw(agent.pid().cast_signed()), Signal::SIGKILL).unwrap();
            all.unwrap();
        });
        place = place.killed_and_started();
        let there = place.kept.get("services");
        for id in acknowledged.lock().unwrap().iter() {
            assert!(there.get(id).is_some(), "{id} was acknowledged");
        }
        place.is_served_by(&["pod-a"]);
    }
}

#[test]
fn definitions_are_read_again_at_sighup() {
    let kept = Kept::new();
    let file = kept.definitions();
    let define = |services: &[Value]| {
        fs::write(&file, json!({ "services": services }).to_string()).unwrap();
    };
    define(&[
        json!({ "name": "a", "port": 1 }),
        json!({ "name": "b", "port": 1 }),
    ]);
    let path = file.to_str().unwrap().to_owned();
    let Some(place) = Place::with(kept, &["--local-services", &path]) else {
        return;
    };
    let hangup = || {
        let pid = Pid::from_raw(place.agent.pid().cast_signed());
        kill(pid, Signal::SIGHUP).unwrap();
    };
    let (kept, hash) = (&place.kept, place.kept.hash("a"));
    thread::scope(|threads| {
        let wait = |id: &str, hash: &str| format!("/v1/agent/service/{id}?hash={hash}&wait=1m");
        let (a, b) = (wait("a", &hash), wait("b", &kept.hash("b")));
        let a = threads.spawn(move || kept.ask("GET", &a, ""));
        let b = threads.spawn(move || kept.ask("GET", &b, ""));
        place.are_waiting(2);
        // What cannot be read changes nothing and is shown.
        fs::write(&file, "{").unwrap();
        hangup();
        let is_shown = || {
            let shown = place.shown();
            let troubles = shown["troubles"].as_array().unwrap().clone();
            troubles.first().map(ToString::to_string)
        };
        let trouble = wait_until("the trouble", SOON, is_shown).unwrap();
        assert!(trouble.contains("services.json"), "{trouble}");
        place.are_waiting(2);
        define(&[
            json!({ "name": "a", "port": 1 }),
            json!({ "name": "c", "port": 1 }),
        ]);
        hangup();
        assert_eq!(b.join().unwrap().status, 404, "it has gone");
        // The other one waits over all of it, until its own content is another.
        place.are_waiting(1);
        assert_eq!(place.shown()["troubles"], json!([]));
        define(&[json!({ "name": "a", "port": 2 })]);
        hangup();
        let answer = a.join().unwrap();
        assert_eq!(answer.status, 200);
        assert_ne!(answer.header("x-consul-contenthash"), Some(&*hash));
    });
}

#[test]
fn an_agent_does_not_begin_with_what_makes_no_sense() {
    let Some(place) = Place::new() else {
        return;
    };
    let node = place.sandbox.node();
    let refused = |kept: &Kept, further: &[&str]| {
        let mut flags = kept.flags();
        flags.extend(further.iter().map(|&flag| flag.to_owned()));
        let pins = PinDir::new();
        let error = Agent::alone(&binary(), node, &pins, &flags).unwrap_err();
        format!("{error:#}")
    };
    let kept = Kept::new();
    fs::write(kept.state(), "{\"version\":1,").unwrap();
    let text = refused(&kept, &[]);
    assert!(text.contains("local.json is damaged: EOF"), "{text}");
    assert!(text.contains("nothing was changed"), "{text}");
    assert_eq!(fs::read_to_string(kept.state()).unwrap(), "{\"version\":1,");
    let kept = Kept::new();
    let state = place.kept.state();
    let text = refused(&kept, &["--local-state", state.to_str().unwrap()]);
    assert!(text.contains("cannot be used multiple times"), "{text}");
    fs::write(kept.definitions(), "{\"service\":{\"nam\":\"x\"}}").unwrap();
    let definitions = kept.definitions();
    let text = refused(&kept, &["--local-services", definitions.to_str().unwrap()]);
    assert!(text.contains("unknown field \"nam\" in service"), "{text}");
}

#[test]
fn nobody_from_elsewhere_and_no_page_of_a_browser_is_answered() {
    let Some(place) = Place::new() else {
        return;
    };
    let node = place.sandbox.node();
    let pins = PinDir::new();
    for address in ["0.0.0.0:8500", "192.168.16.10:8500"] {
        let flags = ["--local-api", address];
        let error = Agent::alone(&binary(), node, &pins, &flags).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("other hosts get to"), "{text}");
    }
    let kept = Kept::new();
    let state = kept.state();
    let flags = [
        "--local-api",
        "127.0.0.1:8500",
        "--local-state",
        state.to_str().unwrap(),
    ];
    let _agent = Agent::alone(&binary(), node, &pins, &flags).unwrap();
    let api = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 8500);
    let ask = |method: &str, path: &str, headers: &[&str], body: &str| {
        node.enter(|| http_ask(tcp(api), method, path, headers, body).unwrap())
    };
    let register = "/v1/agent/service/register";
    let (own, foreign) = ("Host: 127.0.0.1:8500", "Host: evil.example:8500");
    let web = "{\"Name\":\"web\"}";
    assert_eq!(ask("PUT", register, &[foreign], web).status, 403);
    let page = [own, "Origin: http://evil.example"];
    assert_eq!(ask("PUT", register, &page, web).status, 403);
    assert_eq!(ask("GET", "/v1/agent/services", &[foreign], "").status, 403);
    assert_eq!(ask("POST", register, &[own], web).status, 405);
    assert_eq!(
        ask("PUT", register, &[own], &"x".repeat((1 << 20) + 1)).status,
        413
    );
    assert_eq!(ask("PUT", register, &[own], web).status, 200);
    let answer = ask("GET", "/v1/agent/service/web", &[own], "");
    assert_eq!(answer.status, 200);
    let refused = ask("PUT", register, &[own], "{\"Bogus\":1}");
    let text = "Request decode failed: json: unknown field \"Bogus\"";
    assert_eq!((refused.status, &*refused.body), (400, text));
}
