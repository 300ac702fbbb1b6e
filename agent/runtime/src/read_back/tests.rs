//! Readers beside events that come between their pieces.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use shunt_api::view::Difference;
use shunt_common::{V4, V6};
use shunt_datapath::{Capacity, DualPublisher, Families, LiveKey, MemoryTables, SourceRanges};
use shunt_model::{Query, RenderOptions, Renderer, decode};

use crate::{
    error::InspectError,
    read_back::{
        journal::Journal,
        piece::{Part, Piece, Ranges, Seen, read},
        reader::{self, Access},
    },
};

/// Tables, events, and a log, as an agent has them.
struct Loop {
    publisher: DualPublisher<MemoryTables<V4>, MemoryTables<V6>>,
    renderer: Renderer,
    journal: Journal,
}

impl Loop {
    fn new() -> Self {
        let capacity = Capacity {
            frontends: 4096,
            slots: 1 << 16,
            backends: 1 << 15,
        };
        let families = Families {
            ipv4: true,
            ipv6: true,
        };
        Self {
            publisher: DualPublisher::new(
                MemoryTables::new(capacity),
                MemoryTables::new(capacity),
                families,
            ),
            renderer: Renderer::new(RenderOptions::default()),
            journal: Journal::default(),
        }
    }

    /// Applies an event as the agent does.
    fn apply(&mut self, line: &str) {
        let event = decode(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let plan = self.renderer.plan(event).unwrap();
        match &plan.snapshot {
            Some(snapshot) => {
                self.publisher.resync(snapshot).unwrap();
                self.journal.note_all();
            }
            None => {
                self.publisher.publish(&plan.changes).unwrap();
                let changes = &plan.changes;
                let keys = changes.added.iter().chain(&changes.changed);
                let keys = keys.map(|(key, _)| *key);
                self.journal
                    .note(keys.chain(changes.removed.iter().copied()));
            }
        }
        self.renderer.commit(plan);
    }
}

/// Before the piece of this number an event comes.
type Script = BTreeMap<usize, Vec<String>>;

/// An event loop that reads pieces while events come.
struct World {
    inner: RefCell<Loop>,
    script: RefCell<Script>,
    pieces: Cell<usize>,
    listings: Cell<usize>,
    /// An event that comes whenever source ranges were listed.
    after_listing: Option<fn(usize) -> String>,
}

impl World {
    /// A world of so many services, with an event before pieces.
    fn new(services: usize, script: Script) -> Self {
        let mut inner = Loop::new();
        inner.apply(RESYNC);
        for number in 0..services {
            inner.apply(&service(number, number, 2));
        }
        Self {
            inner: RefCell::new(inner),
            script: RefCell::new(script),
            pieces: Cell::new(0),
            listings: Cell::new(0),
            after_listing: None,
        }
    }

    /// Reads all, and compares the result with what there is then. Returns the differences that were seen at any time.
    async fn check_all(&self) -> Vec<Difference> {
        let mut differences = Vec::new();
        let keep = |_, seen: Seen| {
            differences.extend(seen.difference());
            backends_of(&seen)
        };
        let found = reader::all(self, keep).await.unwrap();
        assert!(self.script.borrow().is_empty(), "all events have come");
        assert_eq!(found, self.wanted());
        differences
    }

    /// The backends that events lead to now, of each frontend.
    fn wanted(&self) -> BTreeMap<LiveKey, Vec<String>> {
        let inner = self.inner.borrow();
        let wanted = inner.renderer.frontends().map(|(key, frontend)| {
            let backends = frontend.backends.backends.iter();
            let backends = backends.map(|backend| format!("{}:{}", backend.ip, backend.port));
            (LiveKey::from(key), backends.collect())
        });
        wanted.collect()
    }
}

impl Access for World {
    async fn read(&self, part: Part, ranges: Ranges) -> Result<Piece, InspectError> {
        let number = self.pieces.get();
        self.pieces.set(number + 1);
        let events = self.script.borrow_mut().remove(&number);
        let mut inner = self.inner.borrow_mut();
        for event in events.into_iter().flatten() {
            inner.apply(&event);
        }
        let Loop {
            publisher,
            renderer,
            journal,
        } = &*inner;
        Ok(read(publisher, renderer, journal, part, &ranges)?)
    }

    async fn list(&self) -> Result<Vec<LiveKey>, InspectError> {
        let live = self.inner.borrow().publisher.live()?;
        Ok(live.into_iter().map(|live| live.key).collect())
    }

    async fn source_ranges(&self) -> Result<SourceRanges, InspectError> {
        let number = self.listings.get();
        self.listings.set(number + 1);
        let ranges = self.inner.borrow().publisher.source_ranges()?;
        if let Some(event) = self.after_listing {
            self.inner.borrow_mut().apply(&event(number));
        }
        Ok(ranges)
    }
}

const RESYNC: &str = r#"{"event":"Resync","node_ips":[],"services":[]}"#;

/// A service `web-NUMBER` at an address of this number, with so many backends.
fn service(number: usize, address: usize, backends: usize) -> String {
    let backends =
        (0..backends).map(|last| format!(r#"{{"ip":"10.1.{number}.{last}","port":8080}}"#));
    let backends = backends.collect::<Vec<_>>().join(",");
    format!(
        r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"web-{number}"}},"cluster_ips":["10.96.{address}.1"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},"backends":{{"http":[{backends}]}}}}}}"#
    )
}

/// The service `lb`, whose load balancer's address only this range may use.
fn limited(range: &str) -> String {
    format!(
        r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"lb"}},"load_balancer_ips":["198.51.100.1"],"load_balancer_source_ranges":["{range}"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},"backends":{{"http":[{{"ip":"10.2.0.1","port":8080}}]}}}}}}"#
    )
}

fn delete(name: &str) -> String {
    format!(r#"{{"event":"DeleteService","id":{{"namespace":"default","name":"{name}"}}}}"#)
}

fn backends_of(seen: &Seen) -> Option<Vec<String>> {
    let Seen::There(frontend) = seen else {
        return None;
    };
    let backends = frontend.backends().iter();
    Some(
        backends
            .map(|backend| format!("{}:{}", backend.ip, backend.port))
            .collect(),
    )
}

fn script<const N: usize>(events: [(usize, String); N]) -> Script {
    let mut script = Script::new();
    for (piece, event) in events {
        script.entry(piece).or_default().push(event);
    }
    script
}

#[tokio::test]
async fn what_events_change_between_pieces_is_read_again_and_is_no_difference() {
    // 200 frontends of two backends are two pieces, at least.
    let events = script([
        // Behind what was read, and before it.
        (1, service(199, 199, 7)),
        (1, service(0, 0, 5)),
        // One that moves from what is yet to be read to what was read, and one the other way.
        (1, service(198, 220, 2)),
        (1, service(1, 221, 3)),
        // One that goes, and one that is new before all that was read.
        (1, delete("web-2")),
        (1, delete("web-150")),
        (1, service(201, 0, 1).replace("10.96.0.1", "10.95.0.1")),
        // While the log is followed.
        (2, service(3, 3, 4)),
        (3, service(3, 3, 6)),
    ]);
    let world = World::new(200, events);
    assert_eq!(world.check_all().await, []);
    assert!(world.pieces.get() > 3, "{} pieces", world.pieces.get());
}

#[tokio::test]
async fn after_a_resync_all_is_read_anew() {
    let resync = RESYNC.to_owned();
    let world = World::new(200, script([(1, resync), (1, service(7, 7, 2))]));
    assert_eq!(world.check_all().await, []);
    assert_eq!(world.wanted().len(), 1);
}

#[tokio::test]
async fn what_others_have_done_to_the_tables_is_found() {
    let world = World::new(3, Script::new());
    {
        // As if an agent with other events had written it.
        let mut inner = world.inner.borrow_mut();
        let event = decode(&delete("web-1")).unwrap();
        let plan = inner.renderer.plan(event).unwrap();
        inner.renderer.commit(plan);
        let event = decode(&service(9, 9, 1)).unwrap();
        let plan = inner.renderer.plan(event).unwrap();
        inner.renderer.commit(plan);
    }
    let keep = |_, seen: Seen| seen.difference();
    let found = reader::all(&world, keep).await.unwrap();
    let found: Vec<_> = found
        .into_iter()
        .map(|(key, difference)| (key.to_string(), difference))
        .collect();
    let expected = [
        ("10.96.1.1:80/TCP".to_owned(), Difference::Unknown),
        ("10.96.9.1:80/TCP".to_owned(), Difference::Missing),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn source_ranges_are_listed_again_if_their_frontend_changes() {
    let mut world = World::new(3, Script::new());
    world.inner.get_mut().apply(&limited("192.0.2.0/24"));
    assert_eq!(world.check_all().await, []);
    assert_eq!(world.listings.get(), 1, "nothing has changed");

    // Changes that never end do not keep them from being read.
    world.after_listing = Some(|number| limited(&format!("192.0.{number}.0/24")));
    assert_eq!(world.check_all().await, []);
    assert_eq!(world.listings.get(), 3, "then the loop reads them itself");
}

#[tokio::test]
async fn one_address_is_read_by_its_key() {
    let world = World::new(200, Script::new());
    for (query, expected) in [
        ("10.96.7.1:80/tcp", vec!["10.96.7.1:80/TCP"]),
        ("10.96.7.1", vec!["10.96.7.1:80/TCP"]),
        ("10.1.8.1:8080", vec!["10.96.8.1:80/TCP"]),
        ("10.1.8.1:8081", vec![]),
        ("10.96.7.2", vec![]),
    ] {
        let before = world.pieces.get();
        let query: Query = query.parse().unwrap();
        let found = reader::asked(&world, query, |_, seen| backends_of(&seen));
        let found = found.await.unwrap();
        let found: Vec<_> = found.keys().map(ToString::to_string).collect();
        assert_eq!(found, expected);
        assert_eq!(world.pieces.get(), before + 1, "one piece");
    }
}
