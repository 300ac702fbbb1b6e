//! A Maglev table that takes long to make keeps back what has to come after its event, and nothing else.

use std::{net::Ipv4Addr, thread, time::Duration};

use serde_json::json;
use shunt_tests::wait_until;

use crate::{command::shunt_at, world::World};

/// Flags with which a table of 16,777,213 entries has room: that of a service with 10,000 backends.
const FLAGS: [&str; 8] = [
    "--maglev-entries-per-backend",
    "1000",
    "--max-slots",
    "6000000",
    "--max-backends",
    "16384",
    "--ip-families",
    "ipv4",
];

/// A service on one ClusterIP, with so many backends.
fn event(name: &str, cluster_ip: &str, backends: u32) -> String {
    let backends: Vec<_> = (0..backends)
        .map(|number| json!({ "ip": Ipv4Addr::from_bits(0x0a80_0000 + number), "port": 8080 }))
        .collect();
    json!({
        "event": "UpdateService",
        "service": {
            "id": { "namespace": "default", "name": name },
            "cluster_ips": [cluster_ip],
            "selection": "maglev",
            "ports": { "main": { "protocol": "TCP", "port": 80 } },
            "backends": { "main": backends },
        },
    })
    .to_string()
}

/// Returns the index of the log line on which an event with these words was applied.
fn applied_at(log: &str, words: &str) -> Option<usize> {
    log.lines()
        .position(|line| line.contains(words) && line.contains(" writes"))
}

/// The addresses of the frontends in the kernel, with how many backends each.
fn live(world: &World) -> Vec<(String, usize)> {
    let shown = world.shunt(&["services", "-o", "json"]).json();
    let frontends = shown.as_array().unwrap().iter();
    frontends
        .map(|frontend| {
            let address = frontend["address"].as_str().unwrap();
            let backends = frontend["backends"].as_array().unwrap();
            (address.to_owned(), backends.len())
        })
        .collect()
}

#[test]
fn other_events_take_effect_while_a_large_table_is_made_and_those_of_its_service_after_it() {
    let Some(mut world) = World::with_flags(&FLAGS) else {
        return;
    };
    // The second line comes after the first: no client waits for that one's answer.
    let wide = event("wide", "10.96.0.1", 10_000);
    let next = event("next", "10.96.0.2", 1);
    world.agent.send(&[wide, next]).unwrap();

    let socket = world.agent.socket().to_owned();
    let ask = |event: String| {
        let socket = socket.clone();
        thread::spawn(move || shunt_at(&socket, &["apply", "-"], &event).clean())
    };
    let other = ask(event("other", "10.96.0.3", 2)).join().unwrap();
    assert!(other.contains("1 added, "), "{other}");
    assert_eq!(live(&world), [("10.96.0.3".to_owned(), 2)]);
    let log = world.agent.log();
    for line in ["line 2: ", "line 3: "] {
        assert_eq!(
            applied_at(&log, line),
            None,
            "the table is being made:\n{log}"
        );
    }

    // The one is about the same service, the other claims its frontend.
    let asked =
        [("wide", 2), ("late", 1)].map(|(name, backends)| ask(event(name, "10.96.0.1", backends)));
    let [same, late] = asked.map(|asked| asked.join().unwrap());
    assert!(same.contains("0 added, 1 changed, 0 removed"), "{same}");
    assert!(late.contains("belongs to service default/wide"), "{late}");
    let log = world.agent.log();
    let place = |words: &str| {
        let found = applied_at(&log, words);
        found.unwrap_or_else(|| panic!("{words} is not applied:\n{log}"))
    };
    let wide = place("line 2: UpdateService default/wide: 1 added, ");
    assert!(place("UpdateService default/other: ") < wide, "{log}");
    for after in [
        "line 3: UpdateService default/next: ",
        "UpdateService default/wide: 0 added, 1 changed, ",
        "UpdateService default/late: ",
    ] {
        assert!(wide < place(after), "{after}:\n{log}");
    }
    let expected = [("10.96.0.1", 2), ("10.96.0.2", 1), ("10.96.0.3", 2)];
    assert_eq!(
        live(&world),
        expected.map(|(ip, backends)| (ip.to_owned(), backends))
    );
}

#[test]
fn an_event_whose_table_is_made_waits_behind_a_removal_that_waits_for_a_decision() {
    let flags = [&FLAGS[..], &["--max-removal", "50"]].concat();
    let Some(mut world) = World::with_flags(&flags) else {
        return;
    };
    world.apply(&event("other", "10.96.0.3", 2));
    world
        .agent
        .send(&[event("wide", "10.96.0.1", 10_000)])
        .unwrap();
    let socket = world.agent.socket().to_owned();
    let removal = json!({
        "event": "DeleteService", "id": { "namespace": "default", "name": "other" },
    });
    let removed =
        thread::spawn(move || shunt_at(&socket, &["apply", "-"], &removal.to_string()).clean());
    let mut number = String::new();
    wait_until("the table is made", Duration::from_mins(1), || {
        let held = &world.shunt(&["status", "-o", "json"]).json()["held_removal"];
        number = held["number"].to_string();
        (held["waiting"] == 1).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", world.agent.log()));
    assert_eq!(live(&world), [("10.96.0.3".to_owned(), 2)]);
    world.shunt(&["confirm", &number]).clean();
    let removed = removed.join().unwrap();
    assert!(
        removed.contains("0 added, 0 changed, 1 removed"),
        "{removed}"
    );
    wait_until("both are applied", Duration::from_mins(1), || {
        (live(&world) == [("10.96.0.1".to_owned(), 10_000)]).then_some(())
    })
    .unwrap();
}
