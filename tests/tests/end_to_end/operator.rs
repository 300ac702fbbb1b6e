//! An operator's commands on one node.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use shunt_tests::{Transport, wait_until};

use crate::{
    command::{Ran, shunt_at},
    service::Service,
    world::{REQUEST, World, resync, resync_with},
};

const SOON: Duration = Duration::from_secs(5);

/// Returns a column's cell in the row of a table that begins with `key`.
fn cell(table: &str, key: &str, column: &str) -> String {
    let mut lines = table.lines();
    let heading = lines.next().unwrap();
    let begin = heading.find(column).unwrap();
    let row = lines.find(|line| line.starts_with(key)).unwrap();
    let rest = row.get(begin..).unwrap_or_default();
    rest.split("  ").next().unwrap_or_default().to_owned()
}

fn status(world: &World) -> Value {
    world.shunt(&["status", "-o", "json"]).json()
}

#[test]
fn drained_endpoints_get_no_new_connection_whatever_events_and_restarts_say() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let service = Service::new(Transport::Tcp).backend(a).backend(b);
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().join("overrides.json");
    let flags = ["--overrides", kept.to_str().unwrap()];
    world.add(&service);
    let snapshot = resync_with(&[service.json()]);
    let mut world = world.stopped().start(&flags);
    world.apply(&snapshot);

    let mut open = world.client_pod().enter(|| {
        // Until one is served by it.
        loop {
            let mut open = service.cluster_ip().connect().unwrap();
            if open.echo(REQUEST).unwrap().backend == a {
                return open;
            }
        }
    });
    let said = world.shunt(&["drain", &a.to_string()]).clean();
    assert!(
        said.starts_with(&format!("drain {a}: 0 added, 4 changed")),
        "{said}"
    );
    let all_at_b = |world: &World| {
        let tally = world.ask_from_pod(service.cluster_ip(), 20);
        assert_eq!(tally.of(b), 20, "{tally:?}");
    };
    all_at_b(&world);
    open.echo(REQUEST).unwrap();
    let services = world.shunt(&["services"]).clean();
    assert_eq!(cell(&services, "10.96.0.10:80", "BACKENDS"), "1 of 2");
    let shown = &status(&world)["overrides"];
    assert_eq!(
        *shown,
        json!([{ "override": format!("drain {a}"), "ends_in_seconds": null, "endpoints": 1 }])
    );
    let found = world.shunt(&["lookup", "default/web"]).clean();
    let of_a = found.lines().find(|line| line.contains(&a.to_string()));
    assert!(of_a.unwrap().contains(" 0 "), "its weight: {found}");

    // Events have the same content as always.
    world.update(&service);
    all_at_b(&world);
    world.apply(&snapshot);
    all_at_b(&world);
    let mut world = world.killed().start(&flags);
    all_at_b(&world);
    world.apply(&snapshot);
    all_at_b(&world);

    let last = world.shunt(&["drain", &b.to_string()]);
    assert_eq!(last.status, 0, "{last:?}");
    assert_eq!(
        last.errors.trim(),
        "warning: no backend takes new connections of default/web:main any more"
    );
    world.shunt(&["undrain", &b.to_string()]).clean();

    world.shunt(&["undrain", &a.to_string()]).clean();
    let tally = world.ask_from_pod(service.cluster_ip(), 60);
    assert!(tally.of(a) > 0, "{tally:?}");
    let again = world.shunt(&["undrain", &a.to_string()]);
    assert_eq!(again.status, 1);
    assert!(
        again.errors.contains("no override has this target"),
        "{again:?}"
    );
    assert_eq!(status(&world)["overrides"], json!([]));

    let nobody = world.shunt(&["drain", "--node", "nowhere"]);
    assert_eq!(nobody.status, 0);
    assert!(nobody.errors.contains("no frontend changes"), "{nobody:?}");
}

#[test]
fn a_weight_ends_when_its_time_is_over() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let service = Service::new(Transport::Tcp).backend(a).backend(b);
    world.add(&service);
    let weigh = ["weight", "default/web", &a.to_string(), "0", "--for", "4s"];
    world.shunt(&weigh).clean();
    let weights = |world: &World| {
        let services = world.shunt(&["services", "-o", "json"]).json();
        let backends = services[0]["backends"].as_array().unwrap().clone();
        let weights = backends.iter().map(|backend| backend["weight"].as_u64());
        weights.collect::<Option<Vec<_>>>().unwrap()
    };
    assert_eq!(weights(&world), [0, 1]);
    let ends = status(&world)["overrides"][0]["ends_in_seconds"].as_u64();
    assert!(ends.is_some_and(|ends| ends <= 4), "{ends:?}");
    wait_until("the weight ends", Duration::from_secs(10), || {
        (weights(&world) == [1, 1]).then_some(())
    })
    .unwrap();
    assert_eq!(status(&world)["overrides"], json!([]));

    let shares = world
        .shunt(&["weight", "default/web", &a.to_string(), "7"])
        .clean();
    assert_eq!(weights(&world), [7, 1]);
    let of_b = shares.lines().find(|line| line.contains(&b.to_string()));
    assert!(of_b.unwrap().ends_with(" 12.5 %"), "{shares}");
    world
        .shunt(&["weight", "default/web", &a.to_string(), "--reset"])
        .clean();
    assert_eq!(weights(&world), [1, 1]);
    let heavy = world.shunt(&["weight", "default/web", &a.to_string(), "4294967295"]);
    assert_eq!(heavy.status, 1, "{heavy:?}");
    assert!(heavy.errors.contains("the sum of the weights"), "{heavy:?}");
    assert_eq!(weights(&world), [1, 1], "and it has no effect");
    assert_eq!(status(&world)["overrides"], json!([]));

    // The largest weight that fits does not keep another endpoint away.
    let most = u32::MAX - 1;
    world
        .shunt(&["weight", "default/web", &a.to_string(), &most.to_string()])
        .clean();
    assert_eq!(weights(&world), [u64::from(most), 1]);
    let larger = service.backend(world.backend("pod-d"));
    world.apply(&larger.event("UpdateService"));
    assert_eq!(weights(&world), [u64::from(most) - 1, 1, 1]);
}

#[test]
fn connections_are_filtered_counted_and_forgotten() {
    let Some(mut world) = World::new() else {
        return;
    };
    let backend = world.backend("pod-a");
    let service = Service::new(Transport::Udp).backend(backend);
    world.add(&service);
    let flows: Vec<_> = world.client_pod().enter(|| {
        let flow = |target: shunt_tests::Target| {
            let flow = target.flow().unwrap();
            flow.ask(REQUEST).unwrap();
            flow
        };
        [
            flow(service.cluster_ip()),
            flow(service.cluster_ip()),
            flow(service.external_ip()),
        ]
        .into()
    });
    let count = |filters: &[&str]| {
        let ran = world.shunt(&[&["conntrack", "-o", "json"], filters].concat());
        ran.json().as_array().unwrap().len()
    };
    let client = flows[0].client();
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--client", &client.to_string()]), 1);
    assert_eq!(count(&["--client", &client.ip().to_string()]), 3);
    assert_eq!(count(&["--frontend", "10.96.0.0/16"]), 2);
    assert_eq!(
        count(&["--backend", &backend.to_string(), "--protocol", "udp"]),
        3
    );
    assert_eq!(count(&["--protocol", "tcp"]), 0);
    assert_eq!(count(&["--state", "replied"]), 3);
    assert_eq!(count(&["--idle", "1h"]), 0);
    let counted = world.shunt(&["conntrack", "--count=frontend"]).clean();
    assert_eq!(cell(&counted, "10.96.0.10:80/UDP", "CONNECTIONS"), "2");
    let counted = world.shunt(&["conntrack", "--count", "-o", "json"]).json();
    assert_eq!(counted, json!([{ "of": "all", "connections": 3 }]));

    let nothing = world.shunt(&["conntrack", "flush"]);
    assert_eq!(nothing.status, 2, "which ones is not said: {nothing:?}");
    let flushed = world.shunt(&["conntrack", "flush", "--frontend", "10.96.0.10:80"]);
    assert_eq!(flushed.clean(), "2 connections were forgotten\n");
    assert_eq!(count(&[]), 1);
    // It goes on as a new one.
    flows[0].ask(REQUEST).unwrap();
    assert_eq!(count(&[]), 2);
    let flushed = world.shunt(&["conntrack", "flush", "--all"]).clean();
    assert_eq!(flushed, "2 connections were forgotten\n");
    assert_eq!(count(&[]), 0);
}

#[test]
fn the_source_of_snat_is_shown() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Udp).backend(world.backend("pod-d"));
    world.add(&service);
    let flow = world.sandbox.outside().enter(|| {
        let flow = service.node_port().flow().unwrap();
        flow.ask(REQUEST).unwrap();
        flow
    });
    let rows = world.shunt(&["conntrack", "-o", "json"]).json();
    let source = &rows[0]["snat_source"];
    assert_eq!(source["ip"], json!(shunt_tests::addresses::NODE), "{rows}");
    let port = source["port"].as_u64().unwrap();
    assert!((1024..=29_999).contains(&port), "{rows}");
    let table = world.shunt(&["conntrack"]).clean();
    let shown = cell(&table, "UDP", "SNAT SOURCE");
    assert_eq!(shown, format!("{}:{port}", shunt_tests::addresses::NODE));
    drop(flow);
}

#[test]
fn an_event_that_removes_too_much_waits_for_a_decision() {
    let Some(world) = World::new() else {
        return;
    };
    let backend = world.backend("pod-a");
    let service = Service::new(Transport::Tcp).backend(backend);
    let mut world = world.stopped().start(&["--max-removal", "50"]);
    let full = resync_with(&[service.json()]);
    world.apply(&full);
    let count = |world: &World| {
        let services = world.shunt(&["services", "-o", "json"]).json();
        services.as_array().unwrap().len()
    };
    let held = |world: &World| {
        wait_until("it is held", SOON, || {
            let held = status(world)["held_removal"].clone();
            (!held.is_null()).then_some(held)
        })
        .unwrap()
    };
    let there = count(&world);
    assert!(there > 0);

    // Confirmed, with what came after it.
    world.agent.send(&[Service::delete()]).unwrap();
    let shown = held(&world);
    assert_eq!(shown["removed"], there);
    assert_eq!(shown["frontends"], there);
    world.agent.send(&[service.event("AddService")]).unwrap();
    wait_until("the next waits behind it", SOON, || {
        (status(&world)["held_removal"]["waiting"] == 1).then_some(())
    })
    .unwrap();
    assert_eq!(count(&world), there, "nothing is removed");
    world.ask_from_pod(service.cluster_ip(), 3);
    let table = world.shunt(&["status"]).clean();
    let number = shown["number"].to_string();
    let asked = format!("`shunt confirm {number}` or `shunt discard {number}`");
    assert!(table.contains(&asked), "{table}");
    assert!(world.agent.log().contains(&asked));
    let said = world.shunt(&["confirm", &number]).clean();
    assert!(
        said.starts_with(&format!("confirmed: 0 added, 0 changed, {there} removed")),
        "{said}"
    );
    wait_until("what waited behind it followed", SOON, || {
        (count(&world) == there).then_some(())
    })
    .unwrap();
    let again = world.shunt(&["confirm", &number]);
    assert_eq!(again.status, 1);
    assert!(again.errors.contains("no event waits"), "{again:?}");

    // Discarded.
    world.agent.send(&[Service::delete()]).unwrap();
    let shown = held(&world);
    assert_eq!(
        world.shunt(&["discard", &number]).status,
        1,
        "of the one before"
    );
    assert_eq!(held(&world)["number"], shown["number"]);
    let number = shown["number"].to_string();
    assert_eq!(world.shunt(&["discard", &number]).status, 0);
    assert_eq!(count(&world), there);
    assert_eq!(status(&world)["held_removal"], Value::Null);

    // A Resync comes in its place, and may wait as well.
    world.agent.send(&[Service::delete()]).unwrap();
    let read = held(&world)["number"].to_string();
    world.agent.send(&[full]).unwrap();
    wait_until("a Resync comes in its place", SOON, || {
        status(&world)["held_removal"].is_null().then_some(())
    })
    .unwrap();
    assert_eq!(count(&world), there);
    world.agent.send(&[resync()]).unwrap();
    let shown = held(&world);
    assert!(shown["event"].as_str().unwrap().contains("Resync"));
    assert_eq!(count(&world), there);
    // A decision is about the event that was read, and no newer one.
    for command in ["confirm", "discard"] {
        let late = world.shunt(&[command, &read]);
        let words = format!(
            "event {read} does not wait for a decision, or no longer; event {}",
            shown["number"]
        );
        assert_eq!(late.status, 1);
        assert!(late.errors.contains(&words), "{late:?}");
        assert_eq!(world.shunt(&[command]).status, 2, "the number is required");
    }
    assert_eq!(held(&world)["number"], shown["number"]);
    assert_eq!(count(&world), there);
    let before = shown["number"].as_u64().unwrap();

    // An agent that begins finds the tables as they are, and asks as well.
    let mut world = world.killed().start(&["--max-removal", "50"]);
    world.agent.send(&[resync()]).unwrap();
    let shown = held(&world);
    assert_eq!(shown["removed"], there);
    assert!(
        shown["number"].as_u64().unwrap() > before,
        "no number comes twice"
    );
    world
        .shunt(&["confirm", &shown["number"].to_string()])
        .clean();
    assert_eq!(count(&world), 0);
}

#[test]
fn a_confirmed_event_alone_may_remove_too_much() {
    let Some(world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let mut world = world.stopped().start(&["--max-removal", "50"]);
    world.apply(&resync_with(&[service.json()]));
    let mut world = world.killed().start(&["--max-removal", "50"]);
    let mut other = service.json();
    other["id"]["name"] = "other".into();
    other["cluster_ips"] = json!(["10.96.0.11"]);
    other["external_ips"] = json!([]);
    other["ports"]["main"]["node_port"] = 30081.into();
    // It waits for the first Resync, which waits for a decision.
    let delete = json!({ "event": "DeleteService", "id": other["id"] });
    world.agent.send(&[delete.to_string()]).unwrap();
    world.agent.send(&[resync_with(&[other])]).unwrap();
    let held = |kind: &str| {
        wait_until("it is held", SOON, || {
            let held = status(&world)["held_removal"].clone();
            held["event"].as_str()?.contains(kind).then_some(held)
        })
        .unwrap()
    };
    let number = held("Resync")["number"].to_string();
    world.shunt(&["confirm", &number]).clean();
    held("DeleteService");
    let services = world.shunt(&["services", "-o", "json"]).json();
    let frontends = services.as_array().unwrap();
    let is_other = |frontend: &Value| frontend["service"] == "default/other";
    assert!(
        !frontends.is_empty() && frontends.iter().all(is_other),
        "{services}"
    );
}

#[test]
fn a_socket_whose_file_is_removed_comes_back() {
    let Some(world) = World::new() else {
        return;
    };
    let socket = world.agent.socket().to_owned();
    assert_eq!(status(&world)["socket_recreated"], 0);
    fs::remove_file(&socket).unwrap();
    wait_until("the file is made anew", SOON, || {
        socket.exists().then_some(())
    })
    .unwrap();
    assert_eq!(status(&world)["socket_recreated"], 1);
    let table = world.shunt(&["status"]).clean();
    assert!(table.contains("made anew 1 times"), "{table}");
    world.agent.stop().unwrap();
    assert!(!socket.exists(), "the socket goes with the agent");
}

#[test]
fn what_became_of_each_line_is_said_in_json_and_refused_lines_are_counted() {
    let Some(world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let lines = [&service.event("AddService"), "nonsense"].join("\n");
    let ran = shunt_at(world.agent.socket(), &["apply", "-", "-o", "json"], &lines);
    let Ran {
        status: exit,
        output,
        errors,
    } = ran;
    assert_eq!((exit, errors.as_str()), (1, ""));
    let rows: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows[0]["result"], "applied");
    assert_eq!(rows[0]["event"], "AddService default/web");
    assert_eq!(
        (&rows[0]["line"], &rows[0]["added"]),
        (&json!(1), &json!(4))
    );
    assert_eq!(rows[1]["result"], "refused");
    assert_eq!(rows[1]["line"], 2);
    let reason = rows[1]["reason"].as_str().unwrap();
    assert!(reason.starts_with("not valid JSON"), "{reason}");

    let status = status(&world);
    assert_eq!(status["refused"], 1);
    let text = status["last_error"]["text"].as_str().unwrap();
    assert!(text.contains("line 2: not valid JSON"), "{text}");
}

#[test]
fn lists_are_filtered_and_services_are_looked_up_by_name() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    world.add(&Service::new(Transport::Tcp).backend(a).backend(b));
    let mut other = Service::new(Transport::Udp).json();
    other["id"] = json!({ "namespace": "shop", "name": "empty" });
    other["cluster_ips"] = json!(["10.96.0.20"]);
    other["external_ips"] = json!([]);
    other["ports"]["main"]["node_port"] = json!(30_081);
    world.apply(&json!({ "event": "AddService", "service": other }).to_string());
    let count = |filters: &[&str]| {
        let ran = world.shunt(&[&["services", "-o", "json"], filters].concat());
        ran.json().as_array().unwrap().len()
    };
    let all = count(&[]);
    let [web, empty] = ["web", "empty"].map(|name| count(&["--name", name]));
    assert_eq!(web + empty, all);
    assert_eq!(count(&["-n", "shop"]), empty);
    assert_eq!(count(&["--kind", "clusterip"]), 2);
    assert_eq!(count(&["--address", "10.96.0.20"]), 1);
    assert_eq!(count(&["--address", &a.ip().to_string()]), web);
    assert_eq!(count(&["--not-right"]), empty, "those without a backend");
    let brief = world.shunt(&["services", "--name", "web"]).clean();
    let frontends = brief.split("\n\n").next().unwrap();
    assert_eq!(frontends.lines().count(), 1 + web, "a line each: {brief}");
    let wide = world
        .shunt(&["services", "--name", "web", "-o", "wide"])
        .clean();
    let frontends = wide.split("\n\n").next().unwrap();
    assert_eq!(frontends.lines().count(), 1 + 2 * web, "{wide}");
    for line in frontends.lines().skip(1) {
        assert!(line.contains("default/web"), "{line}");
    }

    for (asked, status, frontends) in [
        ("default/web", 0, web),
        ("default/web:80", 0, 2),
        ("default/web:80/udp", 1, 0),
        ("shop/empty", 0, empty),
        ("shop/nobody", 1, 0),
    ] {
        let ran = world.shunt(&["lookup", asked, "-o", "json"]);
        let found = ran.json();
        let there = found["frontends"].as_array().unwrap().len();
        assert_eq!((ran.status, there), (status, frontends), "{asked}: {found}");
    }
}

#[test]
fn what_is_watched_is_asked_again() {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    let Some(world) = World::new() else {
        return;
    };
    let socket = world.agent.socket().to_str().unwrap().to_owned();
    let mut child = Command::new(crate::world::binary())
        .args(["conntrack", "--count", "-o", "json", "--watch=1s"])
        .args(["--socket", &socket])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("\"connections\":0"), "{line}");
    }
    // It ends when its output is not read any more.
    drop(lines);
    let ended = wait_until("it ends", SOON, || child.try_wait().unwrap());
    if ended.is_err() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(ended.unwrap().success());
}

#[test]
fn forwarding_that_is_turned_off_later_is_shown() {
    let Some(world) = World::new() else {
        return;
    };
    let before = status(&world)["host"].as_array().unwrap().len();
    let forward = |value: &str| {
        let node = world.sandbox.node();
        node.enter(|| fs::write("/proc/sys/net/ipv4/ip_forward", value).unwrap());
    };
    forward("0");
    let shown = wait_until("it is shown", Duration::from_secs(30), || {
        let host = status(&world)["host"].as_array().unwrap().clone();
        (host.len() > before).then_some(host)
    });
    forward("1");
    let shown = Value::from(shown.unwrap()).to_string();
    assert!(shown.contains("net.ipv4.ip_forward=1"), "{shown}");
}
