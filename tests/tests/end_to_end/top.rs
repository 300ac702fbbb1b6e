//! `shunt top` in a real terminal, that of tmux, with a real agent.

use std::{
    env, fs, iter,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{Target, Transport, has_program, terminal_svg, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World, binary},
};

const SOON: Duration = Duration::from_secs(20);

/// A terminal in which `shunt top` runs, until this is dropped.
struct Screen {
    server: String,
}

impl Screen {
    /// Of this size, at the agent's socket; skips the test without tmux.
    fn open(world: &World, (columns, lines): (u16, u16), environment: &str) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !has_program("tmux") {
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let screen = Self {
            server: format!("shunt-test-{}-{number}", process::id()),
        };
        let top = format!(
            "{environment} {} top --socket {}; echo ended $?; sleep 600",
            binary().display(),
            world.agent.socket().display()
        );
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let new = ["new-session", "-d", "-x", &columns, "-y", &lines, &top];
        screen.tmux(&[&["-f", "/dev/null"], &new[..]].concat());
        Some(screen)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let ran = Command::new("tmux")
            .args(["-u", "-L", &self.server])
            .args(arguments)
            .env("LANG", "C.UTF-8")
            .env_remove("TMUX")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The same with the escape sequences of its colours.
    fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn resize(&self, (columns, lines): (u16, u16)) {
        let (columns, lines) = (columns.to_string(), lines.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &lines]);
    }

    /// Waits until the screen is so; returns it.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let shown = wait_until(what, SOON, || Some(self.text()).filter(|text| is_so(text)));
        shown.unwrap_or_else(|error| panic!("{error}\n{}", self.text()))
    }

    #[track_caller]
    fn until_shown(&self, text: &str) -> String {
        self.until(text, |shown| shown.contains(text))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut end = Command::new("tmux");
        end.args(["-L", &self.server, "kill-server"]);
        drop(end.output());
    }
}

/// A service of this name with one TCP port at `10.96.0.NUMBER`.
fn service(world: &World, name: (&str, &str), number: u8, pods: &[&str]) -> Value {
    let backends = pods.iter().map(|pod| world.backend(pod));
    let service = backends.fold(Service::new(Transport::Tcp), Service::backend);
    let mut service = service.json();
    service["id"] = json!({ "namespace": name.0, "name": name.1 });
    service["cluster_ips"] = json!([format!("10.96.0.{number}")]);
    service["external_ips"] = json!([]);
    service["ports"]["main"]["node_port"] = json!(30_080 + u16::from(number));
    service
}

fn add(world: &mut World, service: &Value) {
    world.apply(&json!({ "event": "AddService", "service": service }).to_string());
}

/// Three services, of which one has no backend.
fn busy_world() -> Option<World> {
    let mut world = World::new()?;
    for (name, number, pods) in [
        (("default", "web"), 10, &["pod-a", "pod-b"][..]),
        (("shop", "api"), 11, &["pod-a"]),
        (("shop", "empty"), 12, &[]),
    ] {
        let service = service(&world, name, number, pods);
        add(&mut world, &service);
    }
    Some(world)
}

fn target(number: u8) -> Target {
    Target::new(Transport::Tcp, ([10, 96, 0, number], 80).into())
}

/// Has the client pod open connections to the three services for as long as `look` takes.
fn under_traffic<T>(world: &World, look: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            world.client_pod().enter(|| {
                let mut turn = 0;
                while !is_over.load(Ordering::Relaxed) {
                    turn += 1;
                    drop(target(10).ask(REQUEST));
                    if turn % 3 == 0 {
                        drop(target(11).ask(REQUEST));
                    }
                    if turn % 5 == 0 {
                        drop(target(12).ask(REQUEST));
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            });
        });
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look));
        is_over.store(true, Ordering::Relaxed);
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The word in the row of a service that is so far behind its name.
fn cell(screen: &str, service: &str, number: usize) -> Option<f64> {
    let row = screen.lines().find(|line| line.starts_with(service))?;
    row.split_whitespace().nth(number)?.parse().ok()
}

/// Returns whether an escape sequence chooses a colour of the text; 39 is the terminal's own.
fn is_coloured(shown: &str) -> bool {
    shown.split("\x1b[").skip(1).any(|sequence| {
        let numbers = sequence.split('m').next().unwrap_or_default();
        let mut numbers = numbers.split(';');
        numbers.any(|number| number.len() == 2 && number.starts_with('3') && number != "39")
    })
}

#[test]
fn services_move_on_the_screen_and_keys_lead_through_it() {
    let Some(world) = busy_world() else { return };
    let Some(screen) = Screen::open(&world, (80, 24), "") else {
        return;
    };
    under_traffic(&world, || {
        screen.until("new connections are counted", |shown| {
            cell(shown, "default/web:main", 1).is_some_and(|rate| rate > 0.0)
        });
        screen.until("what is refused is counted", |shown| {
            cell(shown, "shop/empty:main", 2).is_some_and(|rate| rate > 0.0)
        });
        let shown = screen.text();
        assert!(shown.contains("q quit"), "the keys are shown: {shown}");
        screen.press(&["/"]);
        screen.press(&["-l", "shop"]);
        screen.until("others are left out", |shown| {
            shown.contains("/shop_") && !shown.contains("default/web")
        });
        screen.press(&["Escape"]);
        screen.until_shown("default/web");
        screen.press(&["s", "s", "s"]);
        screen.until_shown("sort:name");
        screen.press(&["Home", "Enter"]);
        let shown = screen.until_shown("BACKEND ");
        assert!(
            shown.contains(&world.backend("pod-b").to_string()),
            "{shown}"
        );
        assert!(shown.contains("50%"), "{shown}");
        screen.press(&["Tab"]);
        screen.until_shown("conntrack_v4");
        for size in [(40, 10), (20, 5), (120, 40)] {
            screen.resize(size);
            screen.until_shown("shunt ");
        }
        screen.press(&["Tab"]);
        screen.until_shown("FRONTEND");
        screen.resize((80, 24));
        screen.press(&["e"]);
        screen.until("events come while they are looked at", |shown| {
            let has = |words: &[&str]| {
                let mut lines = shown.lines();
                lines.any(|line| words.iter().all(|word| line.contains(word)))
            };
            has(&["opened", "default/web:main"])
                && has(&["ended", "finished"])
                && has(&["refused", "shop/empty:main", "reject_no_backend"])
        });
        screen.press(&["Escape"]);
        screen.until_shown("sort:name");
        let told = "tell of connections no longer";
        let is_over = || world.agent.log().contains(told).then_some(());
        wait_until("nobody watches", SOON, is_over).unwrap();
    });
    screen.press(&["q"]);
    let shown = screen.until_shown("ended 0");
    assert!(
        !shown.contains("SERVICE"),
        "the terminal is as before: {shown}"
    );
}

#[test]
fn an_agent_that_goes_is_said_and_the_next_is_found() {
    let Some(world) = busy_world() else { return };
    let Some(screen) = Screen::open(&world, (80, 24), "NO_COLOR=1") else {
        return;
    };
    screen.until_shown("default/web:main");
    let shown = screen.coloured();
    assert!(!is_coloured(&shown), "{shown:?}");
    let socket = world.agent.socket().to_owned();
    let world = world.killed();
    screen.until("it is away", |shown| {
        shown.contains("! ") && shown.contains("asking again")
    });
    assert!(
        screen.text().contains("default/web:main"),
        "{}",
        screen.text()
    );
    let world = world.start(&[]);
    // Each agent of the tests has a socket of its own.
    let folder = socket.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    std::os::unix::fs::symlink(world.agent.socket(), &socket).unwrap();
    screen.until("it is there again", |shown| !shown.contains("asking again"));
    screen.press(&["C-c"]);
    screen.until_shown("ended 0");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_an_agent_or_a_terminal_it_says_so() {
    let Some(world) = World::new() else { return };
    let ran = world.shunt(&["top"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.errors.contains("needs a terminal"), "{ran:?}");
    let Some(screen) = Screen::open(&world, (80, 24), "") else {
        return;
    };
    screen.until_shown("no service is translated");
    drop(screen);
    let socket = world.agent.socket().to_owned();
    assert!(world.agent.stop().unwrap().success());
    assert!(!socket.exists());
}

/// The pictures of docs/top.md: `cargo xtask pictures` has them written.
#[test]
fn pictures_of_the_screen_at_three_sizes() {
    let Some(mut world) = busy_world() else {
        return;
    };
    for (name, number, pods) in [
        (("default", "checkout"), 13, &["pod-b"][..]),
        (("kube-system", "dns"), 14, &["pod-a", "pod-b"]),
    ] {
        let service = service(&world, name, number, pods);
        add(&mut world, &service);
    }
    let Some(screen) = Screen::open(&world, (80, 24), "") else {
        return;
    };
    let folder = env::var_os("SHUNT_PICTURES").map(PathBuf::from);
    under_traffic(&world, || {
        let open: Vec<_> = world.client_pod().enter(|| {
            let targets = iter::repeat_n(13, 12).chain(iter::repeat_n(14, 5));
            targets
                .map(|number| target(number).connect().unwrap())
                .collect()
        });
        for size in [(80, 24), (120, 40), (40, 15)] {
            screen.resize(size);
            let (columns, lines) = size;
            screen.until("it is drawn at this size", |shown| {
                let is_busy = cell(shown, "default/web:main", 1).is_some_and(|rate| rate > 0.0);
                let is_wide = shown.contains("FRONTEND");
                is_busy && is_wide == (columns >= 100) && shown.contains("q quit")
            });
            let svg = terminal_svg(&screen.coloured(), columns.into(), lines.into());
            assert!(svg.contains("default/web:main"), "{svg}");
            if let Some(folder) = &folder {
                write(folder, &format!("top-{columns}x{lines}.svg"), &svg);
            }
        }
        drop(open);
    });
}

fn write(folder: &Path, name: &str, picture: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(name), picture).unwrap();
}
