//! The agent's page in a real browser: `tests/page` walks through it.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use shunt_skip::skip;
use shunt_tests::{Continuous, Forward, SocketPath, Target, Transport, by_length, patience};

use crate::world::{REQUEST, SERVED, World, resync_with};

/// Number of services that a page has to bear.
const MANY: usize = 5000;

/// Time that a screen may take to show what it is for.
const SHOWN: Duration = Duration::from_secs(30);

/// Returns the driver of the browser: the folder of playwright, `SHUNT_PLAYWRIGHT` or where `cargo xtask
/// test` puts it. Skips the test if there is none.
fn playwright() -> Option<PathBuf> {
    let given = env::var_os("SHUNT_PLAYWRIGHT").map(PathBuf::from);
    let found = given.unwrap_or_else(|| output().join("playwright"));
    let has_browser = Command::new("chromium").arg("--version").output().is_ok();
    if has_browser && found.join("node_modules/playwright-core").is_dir() {
        return Some(found);
    }
    eprintln!("no chromium, or no playwright at {}", found.display());
    skip("needs chromium and playwright, which `cargo xtask test` fetches");
    None
}

/// Cargo's folder: a test runs as target/PROFILE/deps/NAME-HASH.
fn output() -> PathBuf {
    let this = env::current_exe().unwrap();
    this.ancestors().nth(3).unwrap().to_owned()
}

/// A world whose agent has a page, and the way to it from the browser, which has no other network.
struct Shown {
    forward: Forward,
    world: World,
    _socket: SocketPath,
    playwright: PathBuf,
}

impl Shown {
    fn new(further: &[&str]) -> Option<Self> {
        let playwright = playwright()?;
        let socket = SocketPath::new();
        let place = format!("unix:{}", socket.path().display());
        let flags = [&["--ui", &place], further].concat();
        let world = World::with_flags(&flags)?;
        let forward = Forward::start(0, socket.path()).unwrap();
        Some(Self {
            forward,
            world,
            _socket: socket,
            playwright,
        })
    }

    /// Runs a script of `tests/page`; whatever it finds wrong fails the test. Returns what it has printed.
    fn run(&self, script: &str, arguments: &[&str]) -> String {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let ran = Command::new("node")
            .arg(scripts.join(script))
            .arg(format!("http://{}", self.forward.address()))
            .args(arguments)
            .env("SHUNT_PLAYWRIGHT", &self.playwright)
            .env(
                "SHUNT_PAGE_PATIENCE",
                patience(SHOWN).as_millis().to_string(),
            )
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&ran.stdout).into_owned();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{script}:\n{output}{errors}");
        output
    }
}

/// A service with a port over TCP and these backends' addresses.
fn service(name: &str, address: &str, backends: &[(&str, u32)]) -> Value {
    let backends: Vec<_> = backends
        .iter()
        .map(|(ip, weight)| json!({ "ip": ip, "port": SERVED, "weight": weight, "local": *ip != "10.1.2.3" }))
        .collect();
    json!({
        "id": { "namespace": "shop", "name": name },
        "cluster_ips": [address],
        "ports": { "http": { "protocol": "TCP", "port": 80 } },
        "backends": { "http": backends },
    })
}

fn target(address: &str) -> Target {
    Target::new(Transport::Tcp, format!("{address}:80").parse().unwrap())
}

/// A few services, of which one has changed and one has no backend, with traffic.
fn busy(shown: &mut Shown) -> Continuous {
    let all = [("10.1.1.3", 1), ("10.1.1.4", 1), ("10.1.2.3", 1)];
    let world = &mut shown.world;
    world.apply(&resync_with(&[
        service("web", "10.96.0.10", &all),
        service("cart", "10.96.0.11", &all[..2]),
        service("mail", "10.96.0.12", &[]),
    ]));
    let fewer = service("cart", "10.96.0.11", &[("10.1.1.3", 1), ("10.1.1.4", 0)]);
    world.apply(&json!({ "event": "UpdateService", "service": fewer }).to_string());
    let pod = world.client_pod();
    // No backend is there.
    drop(pod.enter(|| target("10.96.0.12").ask(REQUEST)));
    Continuous::start(pod, target("10.96.0.10"), REQUEST)
}

#[test]
fn every_screen_shows_what_it_is_for_in_every_size_light_and_dark() {
    let Some(mut shown) = Shown::new(&["--count-service-traffic"]) else {
        return;
    };
    let traffic = busy(&mut shown);
    let pictures = output().join("page");
    shown.run("walk.mjs", &[pictures.to_str().unwrap(), "shop/web"]);
    drop(traffic);
}

#[test]
fn the_page_is_used_by_keyboard_alone() {
    let Some(mut shown) = Shown::new(&[]) else {
        return;
    };
    let traffic = busy(&mut shown);
    shown.run("keys.mjs", &["shop/web"]);
    drop(traffic);
}

#[test]
fn what_is_old_or_of_another_build_is_marked_as_such() {
    let Some(mut shown) = Shown::new(&[]) else {
        return;
    };
    let traffic = busy(&mut shown);
    let agent = shown.world.agent.pid().to_string();
    shown.run("stale.mjs", &[&agent]);
    drop(traffic);
}

/// Prints what it measures; how fast is fast enough depends on the machine, so that no more is asked here
/// than that a page of thousands is drawn at all, and only what is in sight of it.
#[test]
fn thousands_of_services_are_borne() {
    let Some(mut shown) = Shown::new(&[
        "--max-frontends",
        "16384",
        "--max-slots",
        "65536",
        "--max-backends",
        "16384",
    ]) else {
        return;
    };
    let services = (0..MANY).map(|number| {
        let address = format!("10.97.{}.{}", number / 250, 1 + number % 250);
        service(
            &format!("web-{number}"),
            &address,
            &[("10.1.1.3", 1), ("10.1.1.4", 1)],
        )
    });
    shown
        .world
        .apply(&resync_with(&services.collect::<Vec<_>>()));
    let pod = shown.world.client_pod();
    let traffic: Vec<_> = ["10.97.0.1", "10.97.0.2", "10.97.0.3"]
        .into_iter()
        .map(|address| Continuous::start(pod, target(address), REQUEST))
        .collect();
    let seconds = by_length(2, 20).to_string();
    let measured = shown.run("load.mjs", &[&MANY.to_string(), &seconds]);
    eprintln!("{measured}");
    let measured: Value = serde_json::from_str(measured.lines().next().unwrap()).unwrap();
    let first_view = measured["first_view_ms"].as_u64().unwrap();
    assert!(first_view < 20_000, "the first view took {first_view} ms");
    drop(traffic);
}
