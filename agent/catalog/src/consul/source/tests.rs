//! The time at which removals are believed after the agent was out of reach.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use shunt_runtime::{Consequences, ConsulMonitor, Reports};

use crate::{
    consul::{
        http::error::AskError,
        source::news::Listener,
        watch::told::{News, Reason, Told, Topic, Trouble},
    },
    instances::{
        configuration::parse::parse, engine::Engine, instance::Instance, place::Place, query::Query,
    },
};

const SETTLE: Duration = Duration::from_secs(10);

/// A listener, an engine that has one frontend, and its query.
struct World {
    listener: Listener,
    engine: Engine,
    query: Arc<Query>,
    start: Instant,
}

impl World {
    fn new() -> Self {
        let frontends = "[[frontend]]\nservice = \"web\"\nvip = \"10.200.0.1\"\nport = 80\n";
        let engine = Engine::new(parse(frontends).unwrap());
        let query = Arc::new(engine.queries().next().unwrap().clone());
        let monitor = ConsulMonitor::new("a".to_owned(), 1);
        Self {
            listener: Listener::new(monitor, Arc::<Reports>::default(), SETTLE),
            engine,
            query,
            start: Instant::now(),
        }
    }

    fn take(&mut self, seconds: u64, news: News) {
        let topic = Topic::Instances(Arc::clone(&self.query));
        let now = self.start + Duration::from_secs(seconds);
        self.listener
            .take(&mut self.engine, Told { topic, news }, now);
    }

    /// There is an answer with instances of these ids.
    fn answer(&mut self, seconds: u64, ids: &[&str], is_back: bool) {
        let instances = ids.iter().map(|id| Instance {
            id: (*id).into(),
            ..Instance::default()
        });
        let news = News::Instances {
            instances: instances.collect(),
            unreadable: Vec::new(),
            is_back,
            hidden: None,
        };
        self.take(seconds, news);
    }

    /// Contact is lost.
    fn lose(&mut self, seconds: u64) {
        let reason = Reason::Failed(AskError::Unreachable("gone".to_owned()));
        let since = SystemTime::now();
        self.take(seconds, News::Stale(Trouble { since, reason }));
    }

    /// Returns the engine's knowledge at this time.
    fn known(&mut self, seconds: u64) -> Vec<String> {
        let now = self.start + Duration::from_secs(seconds);
        self.listener.settle(&mut self.engine, now);
        let known = self.engine.instances(&self.query);
        let known = known.iter().flat_map(|known| known.iter());
        known.map(|instance| instance.id.to_string()).collect()
    }
}

#[test]
fn a_first_answer_after_a_lost_contact_is_not_doubted() {
    let mut world = World::new();
    world.lose(0);
    world.answer(1, &["a"], true);
    assert_eq!(world.known(1), ["a"]);
    assert_eq!(world.listener.settled_at(), None);
    assert_eq!(world.known(20), ["a"], "it is not taken away later");
}

#[test]
fn removals_wait_for_the_time_after_a_lost_contact() {
    let mut world = World::new();
    world.answer(0, &["a", "b"], false);
    world.lose(1);
    world.answer(2, &["a"], true);
    assert_eq!(world.known(11), ["a", "b"]);
    world.answer(11, &["a", "c"], false);
    assert_eq!(world.known(11), ["a", "c", "b"], "additions do not wait");
    assert_eq!(world.known(12), ["a", "c"]);
    world.answer(13, &[], false);
    assert_eq!(world.known(13).len(), 0, "nothing waits any more");
}

#[test]
fn each_loss_begins_the_time_anew_and_none_ends_while_contact_is_lost() {
    let mut world = World::new();
    world.answer(0, &["a", "b"], false);
    world.lose(1);
    world.answer(2, &[], true);
    world.lose(5);
    assert_eq!(world.known(30), ["a", "b"], "nobody has said more since");
    world.answer(31, &["a"], true);
    assert_eq!(world.known(40), ["a", "b"]);
    assert_eq!(world.known(41), ["a"]);
    // Without a word of other instances.
    world.answer(50, &["b"], true);
    world.lose(51);
    world.take(60, News::UpToDate);
    assert_eq!(world.known(69), ["b", "a"]);
    assert_eq!(world.known(70), ["b"]);
}

#[test]
fn answers_with_other_node_names_leave_nothing_behind() {
    let mut world = World::new();
    let place = Place {
        node: "n0".into(),
        datacenter: "dc1".into(),
        here: None,
    };
    world.engine.set_place(place, [].into());
    for number in 0..10_000_u64 {
        let node = format!("node-{number}");
        let instance = Instance {
            node: node.as_str().into(),
            id: node.as_str().into(),
            address: "not an address".into(),
            ..Instance::default()
        };
        // Each one that came before is gone, and may be hidden.
        let hidden = (number > 0).then(|| Trouble {
            since: SystemTime::now(),
            reason: Reason::Denied(format!("node:read on {node}")),
        });
        let news = News::Instances {
            instances: vec![instance],
            unreadable: vec![format!("{node}: its port is no number")],
            is_back: number % 5 == 0,
            hidden,
        };
        // The time of each loss is over when the next one comes.
        world.take(number * 100, news);
        if number % 7 == 0 {
            world.lose(number * 100 + 1);
        }
        world.known(number * 100 + 50);
        let now = world.start + Duration::from_secs(number * 100 + 50);
        while let Some(work) = world.engine.next(now) {
            world.engine.done(work.about, Ok(Consequences::default()));
        }
    }
    let World {
        listener, engine, ..
    } = world;
    assert!(engine.count_instances() <= 2, "one, and one that settles");
    assert!(engine.problems().values().flatten().count() <= 2);
    let [settling, unreadable] = listener.size();
    assert!(settling <= 1 && unreadable == 1, "{settling} {unreadable}");
    let (stale, missing) = listener
        .monitor
        .update(|state| (state.stale.len(), state.missing_rights.len()));
    assert!(stale <= 1 && missing <= 1, "{stale} {missing}");
}
