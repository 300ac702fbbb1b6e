//! The agent's page, as it is asked for over HTTP.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_tests::{
    HttpAnswer, PinDir, SocketPath, Transport, addresses, http_ask, http_get, wait_until,
};

use crate::{
    command::shunt_at,
    http::ASKED,
    service::Service,
    world::{SERVED, World},
};

const PORT: u16 = 9254;

/// The page looks once a second.
const SOON: Duration = Duration::from_secs(10);

const TOKEN: &str = "correct-horse-battery-staple";

impl World {
    /// Asks for something of the page, from the node, with these header lines.
    fn ask_page(&self, method: &str, path: &str, headers: &[&str], body: &str) -> HttpAnswer {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT);
        let ask = || {
            let stream = TcpStream::connect(address).unwrap();
            http_ask(stream, method, path, headers, body).unwrap()
        };
        self.sandbox.node().enter(ask)
    }

    /// Returns the page's data at this path.
    pub(crate) fn told(&self, path: &str) -> Value {
        let answer = self.ask_page("GET", path, &["Host: localhost"], "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        // It comes in one piece.
        serde_json::from_str(&answer.body).unwrap()
    }
}

/// A token in a file of its own.
fn token_file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("{TOKEN}\n")).unwrap();
    file
}

#[test]
fn the_page_is_for_this_host_and_changes_nothing() {
    let Some(world) = World::with_flags(&["--ui", "9254", "--ui-host", "node.example"]) else {
        return;
    };
    let ours = ["Host: node.example:9254"];
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/style/tokens.css", "text/css; charset=utf-8"),
        ("/api/live", "application/json"),
        ("/api/status", "application/json"),
    ] {
        let answer = world.ask_page("GET", path, &ours, "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some(kind), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none';"),
            "{path}: {policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    for (method, path, host, status) in [
        ("GET", "/", "Host: evil.example", 421),
        ("GET", "/api/live", "Host: evil.example:9254", 421),
        ("GET", "/api/live", "Host: 192.168.16.10", 421),
        ("POST", "/api/live", "Host: localhost", 405),
        (
            "DELETE",
            "/api/service?name=default/web",
            "Host: localhost",
            405,
        ),
        ("POST", "/login", "Host: localhost", 404),
        ("GET", "/../Cargo.toml", "Host: localhost", 404),
        ("GET", "/api/other", "Host: localhost", 404),
        (
            "GET",
            "/api/service?name=default/nobody",
            "Host: localhost",
            404,
        ),
        ("GET", "/api/connections?state=up", "Host: localhost", 400),
        ("GET", "/api/live?run=x", "Host: localhost", 400),
    ] {
        let answer = world.ask_page(method, path, &[host], "");
        assert_eq!(answer.status, status, "{method} {path} {host}: {answer:?}");
        assert!(answer.header("content-security-policy").is_some(), "{path}");
    }
    // From another place than this host no server answers.
    let elsewhere = SocketAddr::new(addresses::NODE, PORT);
    let client = world.client_pod();
    client.enter(|| http_get(elsewhere, "/", &[])).unwrap_err();
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(
        status["listeners"],
        json!([{ "name": "page", "address": "127.0.0.1:9254", "problem": null }])
    );
}

#[test]
fn where_others_get_to_it_the_page_asks_for_a_token() {
    let file = token_file();
    let file = file.path().to_str().unwrap();
    let flags = ["--ui", "0.0.0.0:9254", "--ui-token-file", file];
    let Some(world) = World::with_flags(&flags) else {
        return;
    };
    let ask = |headers: &[&str]| {
        let headers = [&["Host: 192.168.16.10:9254"], headers].concat();
        world.ask_page("GET", "/api/live", &headers, "").status
    };
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(ask(&[]), 401);
    assert_eq!(ask(&["Authorization: Bearer wrong"]), 401);
    assert_eq!(ask(&[&bearer]), 200);
    // What the page is made of is no secret, and asks for the token.
    assert_eq!(
        world.ask_page("GET", "/", &["Host: localhost"], "").status,
        200
    );

    let sign_in = |token| world.ask_page("POST", "/login", &["Host: localhost"], token);
    assert_eq!(sign_in("wrong").status, 403);
    assert_eq!(sign_in("wrong").header("set-cookie"), None);
    let answer = sign_in(TOKEN);
    assert_eq!(answer.status, 200);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(TOKEN), "the cookie is the token: {cookie}");
    let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
    assert_eq!(ask(&[&cookie]), 200);
    let sign_out = world.ask_page("POST", "/logout", &["Host: localhost", &cookie], "");
    assert_eq!(sign_out.status, 200);
    assert_eq!(ask(&[&cookie]), 401);
    let proxied = ["Host: localhost", "Origin: https://localhost"];
    let answer = world.ask_page("POST", "/login", &proxied, TOKEN);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("; Secure"), "{cookie}");
    let log = world.agent.log();
    assert!(!log.contains(TOKEN), "the token is in the log");
}

#[test]
fn a_thousand_wrong_tokens_are_few_attempts_and_few_lines() {
    let file = token_file();
    let file = file.path().to_str().unwrap();
    let flags = [&["--ui", "9254", "--ui-token-file", file][..], &ASKED].concat();
    let Some(world) = World::with_flags(&flags) else {
        return;
    };
    let ask = |header: &str| {
        let headers = ["Host: localhost", header];
        world.ask_page("GET", "/api/live", &headers, "").status
    };
    let session = world.ask_page("POST", "/login", &["Host: localhost"], TOKEN);
    let session = session.header("set-cookie").unwrap();
    let session = format!("Cookie: {}", session.split(';').next().unwrap());
    let begin = Instant::now();
    let answers: Vec<u16> = (0..1000)
        .map(|number| ask(&format!("Authorization: Bearer wrong-token-{number}")))
        .collect();
    // Ten at once, and one more each two seconds.
    let most = 11 + begin.elapsed().as_secs() as usize / 2;
    let refused = answers.iter().filter(|status| **status == 401).count();
    assert!(
        (10..=most).contains(&refused),
        "{refused} of at most {most}"
    );
    let paused = answers.iter().filter(|status| **status == 429).count();
    assert_eq!(refused + paused, answers.len());
    // A browser that has signed in goes on.
    assert_eq!(ask(&session), 200);
    let counted = world.metric("shunt_tokens_refused_total");
    assert_eq!(counted.map(|count| count as usize), Some(refused));
    let log = world.agent.log();
    let lines = log.lines().filter(|line| line.contains("wrong tokens"));
    let minutes = begin.elapsed().as_secs() as usize / 60 + 1;
    assert!((1..=minutes).contains(&lines.count()), "{log}");
}

#[test]
fn an_agent_does_not_begin_with_a_page_for_everybody() {
    let Some(world) = World::new() else {
        return;
    };
    let short = tempfile::NamedTempFile::new().unwrap();
    fs::write(short.path(), "short").unwrap();
    let short = short.path().to_str().unwrap();
    let (pins, socket) = (PinDir::new(), SocketPath::new());
    for (flags, expected) in [
        (
            vec!["--ui", "0.0.0.0:9254"],
            "--ui: other hosts get to 0.0.0.0:9254",
        ),
        (
            vec!["--ui", "9254", "--ui-token-file", short],
            "the token has 5 characters",
        ),
        (
            vec!["--ui", "9254", "--ui-token-file", "/nowhere"],
            "--ui-token-file /nowhere: cannot read it",
        ),
        (vec!["--ui", "localhost"], "must be IP:port"),
    ] {
        let begin = [
            "agent",
            "--socket-lb",
            "off",
            "--pin-dir",
            pins.path().to_str().unwrap(),
        ];
        let arguments = [&begin[..], &flags].concat();
        let node = world.sandbox.node();
        let ran = node.enter(|| shunt_at(socket.path(), &arguments, ""));
        assert_ne!(ran.status, 0, "{flags:?}");
        assert!(ran.errors.contains(expected), "{flags:?}: {}", ran.errors);
        assert!(!pins.path().exists(), "it must not have begun");
    }
}

#[test]
fn the_page_is_served_at_a_unix_socket_too() {
    let socket = SocketPath::new();
    let place = format!("unix:{}", socket.path().display());
    let Some(world) = World::with_flags(&["--ui", &place]) else {
        return;
    };
    let stream = UnixStream::connect(socket.path()).unwrap();
    let answer = http_ask(stream, "GET", "/api/live", &["Host: localhost"], "").unwrap();
    assert_eq!(answer.status, 200);
    assert!(world.agent.stop().unwrap().success());
    assert!(!socket.path().exists());
}

#[test]
fn what_changes_of_a_service_is_remembered_and_its_connections_are_counted() {
    let Some(mut world) = World::with_flags(&["--ui", "9254"]) else {
        return;
    };
    let (a, b) = (world.backend("pod-a"), world.backend("pod-b"));
    let service = Service::new(Transport::Tcp).backend(a);
    world.add(&service);
    let first = world.told("/api/live");
    let listed = &first["catalog"]["services"][0];
    assert_eq!(listed[1], "default/web");
    assert_eq!(listed[2], "10.96.0.10:80/TCP");
    assert_eq!((&listed[4], &listed[5]), (&json!(1), &json!(1)));

    world.ask_from_pod(service.cluster_ip(), 20);
    world.update(&service.clone().weighted(b, 3));
    let of = |key: &str| first[key].to_string();
    let revision = &first["catalog"]["revision"];
    let next = format!(
        "/api/live?run={}&sample={}&catalog={revision}&point={}",
        of("run"),
        of("sample"),
        of("point")
    );
    let next = world.told(&next);
    assert_eq!(next["catalog"]["all"], false);
    assert_eq!(next["catalog"]["services"][0][5], 2, "two backends: {next}");
    assert_eq!(next["counters"]["drop_corrupt"][0], 0);

    let shown = wait_until("twenty connections are counted", SOON, || {
        let shown = world.told("/api/service?name=default/web");
        (shown["ports"][0]["counters"]["connections"] == 20).then_some(shown)
    });
    let shown = shown.unwrap();
    let backends = shown["frontends"][0]["backends"].as_array().unwrap();
    assert_eq!(backends.len(), 2);
    let changes = shown["changes"].as_array().unwrap();
    let whats: Vec<_> = changes
        .iter()
        .map(|change| &change["changed"][0]["what"])
        .collect();
    assert_eq!(whats, ["backends added", "frontends added"]);
    assert_eq!(changes[0]["changed"][0]["named"], json!([b.to_string()]));

    let chosen = wait_until("each was for one of the backends", SOON, || {
        let shown = world.told("/api/service?name=default/web");
        let chosen = shown["chosen"].as_array().unwrap().clone();
        let counts = chosen
            .iter()
            .map(|chosen| chosen["connections"].as_u64().unwrap());
        (counts.sum::<u64>() == 20).then_some(chosen)
    });
    let chosen = chosen.unwrap();
    let names = chosen.iter().map(|chosen| chosen["backend"].clone());
    assert_eq!(json!(names.collect::<Vec<_>>()), json!([a, b]));

    let picture = wait_until("the lines have rates", SOON, || {
        let picture = world.told("/api/topology");
        let backends = picture["services"][0]["backends"].clone();
        (backends[0][3].is_number() && backends[1][3].is_number()).then_some(backends)
    });
    let mut picture = picture.unwrap();
    for line in picture.as_array_mut().unwrap() {
        line.as_array_mut().unwrap().truncate(3);
    }
    assert_eq!(
        picture,
        json!([[a.to_string(), 0.25, true], [b.to_string(), 0.75, true]])
    );
    world.apply(&Service::delete());
    let gone = world.told("/api/service?name=default/web");
    assert_eq!(gone["frontends"], json!([]));
    assert_eq!(
        gone["changes"][0]["changed"][0]["what"],
        "frontends removed"
    );
    assert_eq!(world.told("/api/changes")["changes"][0], gone["changes"][0]);
}

#[test]
fn connections_are_shown_a_page_at_a_time_and_refusals_by_service() {
    let Some(mut world) = World::with_flags(&["--ui", "9254"]) else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 25);
    let page = |query: &str| {
        let page = world.told(&format!("/api/connections?{query}"));
        let shown = page["connections"].as_array().unwrap().clone();
        (shown, page["more"].as_bool().unwrap())
    };
    let (first, more) = page("limit=20&client=10.1.1.5");
    assert_eq!((first.len(), more), (20, true));
    assert_eq!(first[0]["service"], "default/web");
    assert_eq!(
        first[0]["backend"],
        json!({ "ip": "10.1.1.3", "port": SERVED })
    );
    let (rest, more) = page("limit=20&offset=20&client=10.1.1.5");
    assert_eq!((rest.len(), more), (5, false));
    assert!(page("client=10.1.1.6").0.is_empty());

    // No process takes connections any more.
    world.update(&Service::new(Transport::Tcp));
    let target = service.cluster_ip();
    world.client_pod().enter(|| target.ask(1)).unwrap_err();
    let expected = json!([["default/web", "main", "reject_no_backend", 1]]);
    wait_until("what was refused is shown", SOON, || {
        (world.told("/api/refusals")["refusals"] == expected).then_some(())
    })
    .unwrap();
}

#[test]
fn the_page_asks_what_would_become_of_a_packet() {
    let Some(mut world) = World::with_flags(&["--ui", "9254"]) else {
        return;
    };
    let backend = world.backend("pod-a");
    world.add(&Service::new(Transport::Tcp).backend(backend));
    let told = world.told("/api/trace?from=10.1.1.5&to=10.96.0.10:80&count=20");
    let steps = told["steps"].as_array().unwrap();
    let text = |step: &Value| step["text"].as_str().unwrap().to_owned();
    assert!(
        steps[0]["is_place"] == true && text(&steps[0]).contains("ingress"),
        "{told}"
    );
    let named = "frontend 10.96.0.10:80: the ClusterIP of service default/web, port main";
    assert!(steps.iter().any(|step| text(step) == named), "{told}");
    assert_eq!(
        told["parts"],
        json!([{
            "backend": backend.to_string(),
            "packets": 20,
            "share": 1.0,
            "end": "leaves",
            "text": "leaves the node",
        }])
    );
    // The command shows the same, and nothing has come of either.
    let command = [
        "trace",
        "--from",
        "10.1.1.5",
        "--to",
        "10.96.0.10:80",
        "-o",
        "json",
    ];
    let said = world.shunt(&command).json();
    let texts = |steps: &Value| {
        steps
            .as_array()
            .unwrap()
            .iter()
            .map(text)
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(&said["steps"]), texts(&told["steps"]));
    assert_eq!(world.shunt(&["conntrack", "-o", "json"]).json(), json!([]));
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(status["counters"]["connection"], 0);

    for (path, words) in [
        ("/api/trace?to=10.96.0.10:80", "from: it is missing"),
        (
            "/api/trace?from=10.1.1.5&to=web",
            "to: an address with a port",
        ),
        (
            "/api/trace?from=10.1.1.5&to=10.96.0.10:80&interface=eth9",
            "the node has no interface eth9",
        ),
    ] {
        let answer = world.ask_page("GET", path, &["Host: localhost"], "");
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains(words), "{answer:?}");
    }
}

#[test]
fn traces_wait_for_each_other() {
    let Some(mut world) = World::with_flags(&["--ui", "9254"]) else {
        return;
    };
    world.add(&Service::new(Transport::Tcp).backend(world.backend("pod-a")));
    let path = "/api/trace?from=10.1.1.5&to=10.96.0.10:80&count=10000";
    let ask = || world.ask_page("GET", path, &["Host: localhost"], "");
    let answers: Vec<HttpAnswer> = thread::scope(|scope| {
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        asking
            .into_iter()
            .map(|asking| asking.join().unwrap())
            .collect()
    });
    for answer in &answers {
        let HttpAnswer { status, body, .. } = answer;
        // On a slow machine the last one has waited for too long.
        let is_late = *status == 503 && body.contains("other traces are under way");
        assert!(*status == 200 || is_late, "{answers:?}");
    }
    assert_eq!(answers.iter().map(|answer| answer.status).min(), Some(200));
}
