//! The views of the agent and of the kernel.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{PinDir, Transport, addresses, wait_until};

use crate::{
    command::{shunt, shunt_at},
    pinned::Tables,
    service::Service,
    world::{REQUEST, SERVED, World, resync_with},
};

const SOON: Duration = Duration::from_secs(5);

/// The rows of `shunt services` with a difference, and its remarks.
fn differences(world: &World) -> (Vec<(String, String)>, String) {
    let ran = world.shunt(&["services", "-o", "json"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let rows = ran.json();
    let rows = rows.as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let different = rows
        .filter_map(|row| Some((text(&row["address"])?, text(&row["difference"])?)))
        .collect();
    (different, ran.errors)
}

#[test]
fn a_socket_is_for_one_agent_and_for_root() {
    let Some(world) = World::new() else {
        return;
    };
    let socket = world.agent.socket().to_owned();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);

    let pins = PinDir::new();
    let flags = ["agent", "--pin-dir", pins.path().to_str().unwrap()];
    let refused = world.sandbox.node().enter(|| shunt_at(&socket, &flags, ""));
    let words = format!(
        "error: another agent listens at {}: a socket is for one agent\n",
        socket.display()
    );
    assert_eq!((refused.status, refused.errors), (1, words));
    assert!(!pins.path().exists(), "it must not have begun");
    world.shunt(&["status"]).clean();

    world.agent.stop().unwrap();
    assert!(!socket.exists(), "the socket goes with the agent");
}

#[test]
fn status_shows_what_is_wrong() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let mut rival: Value = serde_json::from_str(&service.event("AddService")).unwrap();
    rival["service"]["id"]["name"] = "rival".into();
    let interfaces = json!({ "event": "UpdateLocalFrontendIfs", "new": ["eth0", "nowhere"] });
    let lines = [rival, interfaces].map(|event| event.to_string());
    world.apply_lines(&[&*lines[0], &*lines[1]]).clean();
    drop(world.agent.apply("nonsense").unwrap());

    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(status["synced"], true);
    assert_eq!(status["applied"], 4, "Resync, two services, interfaces");
    assert_eq!(status["refused"], 1);
    let error = status["last_error"]["text"].as_str().unwrap();
    assert!(error.starts_with("line 3: not valid JSON"), "{error}");
    assert_eq!(status["pin_dir"], world.pins.path().to_str().unwrap());
    assert_eq!(
        status["node_ips"],
        json!([addresses::NODE, addresses::NODE2])
    );
    assert_eq!(status["own_node_ips"], json!([addresses::NODE]));
    let interfaces: Vec<_> = status["interfaces"].as_array().unwrap().iter().collect();
    let states: Vec<_> = interfaces
        .iter()
        .map(|interface| (&interface["name"], &interface["state"]))
        .collect();
    assert_eq!(
        states,
        [
            (&json!("eth0"), &json!("attached")),
            (&json!("nowhere"), &json!("absent"))
        ]
    );
    let conflicts = status["conflicts"].as_array().unwrap();
    assert_eq!(conflicts.len(), 4, "one for each frontend of the service");
    assert_eq!(
        conflicts[0],
        json!({ "frontend": "10.96.0.10:80/TCP", "holder": "default/web",
                "waiting": "default/rival" })
    );
    let used: Vec<_> = status["tables"].as_array().unwrap().iter().collect();
    let used: Vec<_> = used
        .iter()
        .map(|table| (&table["name"], &table["capacity"]))
        .collect();
    assert_eq!(
        used,
        [
            (&json!("frontends_v4"), &json!(64)),
            (&json!("slots_v4"), &json!(1024)),
            (&json!("backends_v4"), &json!(256)),
            (&json!("frontends_v6"), &json!(64)),
            (&json!("slots_v6"), &json!(1024)),
            (&json!("backends_v6"), &json!(256)),
            (&json!("services"), &json!(16384)),
            (&json!("conntrack_v4"), &json!(65536)),
            (&json!("conntrack_v6"), &json!(65536)),
        ]
    );
    assert_eq!(status["conntrack_early_drop"], 0);
    let table = world.shunt(&["status"]).clean();
    for word in [
        "nowhere",
        "absent",
        "default/rival",
        "(own)",
        "not valid JSON",
        "early drop",
    ] {
        assert!(table.contains(word), "{word} is missing in\n{table}");
    }
}

#[test]
fn conntrack_shows_connections_and_how_far_they_are() {
    let Some(mut world) = World::new() else {
        return;
    };
    let backend = world.backend("pod-a");
    let connections = |world: &World| {
        let rows = world.shunt(&["conntrack", "-o", "json"]).json();
        rows.as_array().unwrap().clone()
    };
    let service = Service::new(Transport::Tcp).backend(backend);
    world.add(&service);
    assert_eq!(connections(&world), [] as [Value; 0]);

    let mut open = world
        .client_pod()
        .enter(|| service.cluster_ip().connect().unwrap());
    open.echo(REQUEST).unwrap();
    let client = open.client();
    let rows = connections(&world);
    let [row] = rows.as_slice() else {
        panic!("one connection, not {rows:?}");
    };
    let mut expected = json!({
        "protocol": "TCP",
        "client": { "ip": client.ip(), "port": client.port() },
        "frontend": { "ip": "10.96.0.10", "port": 80 },
        "backend": { "ip": backend.ip(), "port": SERVED },
        "state": "ESTABLISHED",
    });
    expected["idle_seconds"] = row["idle_seconds"].clone();
    assert_eq!(*row, expected);
    assert!(row["idle_seconds"].as_u64().unwrap() < 5, "{row}");

    open.close().unwrap();
    wait_until("the connection is closed", SOON, || {
        (connections(&world).first()?["state"] == "TIME_WAIT").then_some(())
    })
    .unwrap();

    let service = Service::new(Transport::Udp).backend(backend);
    world.update(&service);
    let flow = world
        .client_pod()
        .enter(|| service.external_ip().flow().unwrap());
    flow.ask(REQUEST).unwrap();
    let rows = connections(&world);
    let replied = rows.iter().filter(|row| row["state"] == "REPLIED");
    let replied: Vec<_> = replied.collect();
    assert_eq!(replied.len(), 1, "{rows:?}");
    assert_eq!(replied[0]["client"]["port"], flow.client().port());
    assert_eq!(replied[0]["frontend"]["ip"], "203.0.113.7");
    let table = world.shunt(&["conntrack"]).clean();
    let expected = format!("{}", flow.client());
    assert!(
        table.contains(&expected),
        "{expected} is missing in\n{table}"
    );
}

#[test]
fn lookup_finds_frontends_and_backends() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    world.add(&Service::new(Transport::Tcp).backend(a).backend(b));
    let (backend, other) = (a.to_string(), "10.1.1.3:9999");
    for (place, status, frontends, backend_of) in [
        ("10.96.0.10", 0, 1, 0),
        ("10.96.0.10:80", 0, 1, 0),
        ("10.96.0.10:81", 1, 0, 0),
        ("192.168.16.10", 0, 1, 0),
        ("10.1.1.4", 0, 0, 4),
        (&*backend, 0, 0, 4),
        (other, 1, 0, 0),
        ("fd00::1", 1, 0, 0),
    ] {
        let ran = world.shunt(&["lookup", place, "-o", "json"]);
        let found = ran.json();
        let count = |list: &str| found[list].as_array().unwrap().len();
        assert_eq!(
            (ran.status, count("frontends"), count("backend_of")),
            (status, frontends, backend_of),
            "{place}: {found}"
        );
        assert_eq!(world.shunt(&["lookup", place]).status, status, "{place}");
    }
    let found = world
        .shunt(&["lookup", "10.96.0.10:80", "-o", "json"])
        .json();
    let services = world.shunt(&["services", "-o", "json"]).json();
    assert_eq!(found["frontends"][0], services[0]);
}

#[test]
fn what_someone_else_does_to_the_tables_is_shown() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let service = Service::new(Transport::Tcp).weighted(a, 3).backend(b);
    let snapshot = resync_with(&[service.json()]);
    world.apply(&snapshot);
    assert_eq!(differences(&world), (Vec::new(), String::new()));

    let mut tables = Tables::open(&world.pins);
    let key = |address: [u8; 4], port: u16| {
        let [a, b, c, d] = address;
        let [high, low] = port.to_be_bytes();
        [a, b, c, d, high, low, 6, 0]
    };
    let (cluster_ip, external_ip) = (key([10, 96, 0, 10], 80), key([203, 0, 113, 7], 80));
    let index = tables.frontends.get(&cluster_ip, 0).unwrap();
    tables.cells.set(index, 0, 0).unwrap();
    tables.frontends.remove(&external_ip).unwrap();
    tables
        .frontends
        .insert(key([9, 9, 9, 9], 9), 63, 0)
        .unwrap();

    let (rows, remarks) = differences(&world);
    let row = |address: &str, difference: &str| (address.to_owned(), difference.to_owned());
    assert_eq!(
        rows,
        [row("9.9.9.9", "unknown"), row("10.96.0.10", "changed")]
    );
    assert_eq!(
        remarks,
        "difference: 203.0.113.7:80/TCP is not in the kernel, but events lead to it\n\
         difference: 9.9.9.9:9/TCP is in the kernel, but no event leads to it\n\
         difference: 10.96.0.10:80/TCP is not in the kernel as the events lead to\n"
    );
    let live = world.shunt(&["services", "-o", "json"]).json();
    assert_eq!(live[0]["service"], Value::Null);
    assert_eq!(live[0]["kind"], Value::Null);
    assert_eq!(live[1]["backends"], json!([]), "as packets see it");
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(
        status["differences"],
        json!([
            { "frontend": "9.9.9.9:9/TCP", "difference": "unknown" },
            { "frontend": "10.96.0.10:80/TCP", "difference": "changed" },
            { "frontend": "203.0.113.7:80/TCP", "difference": "missing" },
        ])
    );

    world.apply(&snapshot);
    assert_eq!(differences(&world), (Vec::new(), String::new()));
    assert_eq!(shunt(&["services", "--nonsense"], "").status, 2);
}

#[test]
fn events_between_pieces_are_no_differences() {
    let tables = ["--max-backends", "4096", "--max-slots", "16384"];
    let Some(mut world) = World::with_flags(&tables) else {
        return;
    };
    // Each frontend is a piece by itself.
    let many = |network: u8| {
        let mut service = Service::new(Transport::Tcp);
        for number in 0..1000_u16 {
            let [high, low] = number.to_be_bytes();
            service = service.backend(([10, network, high, low], SERVED).into());
        }
        service
    };
    world.add(&many(9));
    let socket = world.agent.socket().to_owned();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = 0;
            while !is_over.load(Ordering::Relaxed) {
                let status = shunt_at(&socket, &["status", "-o", "json"], "").json();
                assert_eq!(status["differences"], json!([]));
                let ran = shunt_at(&socket, &["services", "-o", "json"], "");
                assert_eq!(ran.errors, "");
                assert_eq!(ran.json().as_array().unwrap().len(), 4);
                looks += 1;
            }
            looks
        });
        for round in 0..60 {
            world.update(&many(9 + round % 2));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(looking.join().unwrap() > 0, "nobody has looked");
    });
}
