//! Events that wait beside the event loop for what is made for them, and those that have to come after
//! one that waits.

use std::{
    collections::{HashSet, VecDeque},
    hash::Hash,
    time::Instant,
};

use shunt_model::Footprint;

/// Maximum number that wait. Beyond that, all requests wait in the queue, as behind any event.
const MOST: usize = 64;

/// Data that decide whether an event may take effect before another one that came first.
#[derive(Debug)]
pub(super) struct Concern {
    /// True if its sender goes on without knowing what became of it. Such events keep their order; a
    /// sender that waits for the answer has seen to that itself.
    pub(super) in_order: bool,
    /// Footprint of the event.
    pub(super) footprint: Footprint,
}

impl Concern {
    /// Returns whether an event of this concern has to come after one of the `earlier` one.
    fn comes_after(&self, earlier: &Self) -> bool {
        self.in_order && earlier.in_order || self.footprint.meets(&earlier.footprint)
    }
}

/// Things that a request waits for, each named by its key.
#[derive(Debug)]
pub(super) enum Needs<K> {
    /// Events that came before it: what they do may change what it needs.
    Unknown,
    /// These.
    Known {
        keys: HashSet<K>,
        /// Since when that is known.
        since: Instant,
    },
}

/// One that waits.
#[derive(Debug)]
pub(super) struct Waiting<T, K> {
    pub(super) item: T,
    pub(super) concern: Concern,
    pub(super) needs: Needs<K>,
}

/// All that wait, in the order in which they came.
#[derive(Debug)]
pub(super) struct Aside<T, K> {
    waiting: VecDeque<Waiting<T, K>>,
}

impl<T, K> Default for Aside<T, K> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
        }
    }
}

impl<T, K: Eq + Hash> Aside<T, K> {
    /// Returns whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < MOST
    }

    /// Returns whether what comes now has to wait for one that waits.
    pub(super) fn holds_up(&self, concern: &Concern) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|earlier| concern.comes_after(&earlier.concern))
    }

    /// Returns whether any waits for this.
    pub(super) fn needs(&self, key: &K) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(
            |waiting| matches!(&waiting.needs, Needs::Known { keys, .. } if keys.contains(key)),
        )
    }

    /// One more waits, behind all others.
    pub(super) fn push(&mut self, waiting: Waiting<T, K>) {
        self.waiting.push_back(waiting);
    }

    /// Takes the first out that comes after none which waits, and for which all is there, and returns its
    /// position. Of one whose needs are [not known](Needs::Unknown) they can be known now.
    pub(super) fn take_free(
        &mut self,
        is_there: impl Fn(&K) -> bool,
    ) -> Option<(usize, Waiting<T, K>)> {
        let place = self.waiting.iter().enumerate().position(|(place, one)| {
            let mut earlier = self.waiting.iter().take(place);
            let has_all = match &one.needs {
                Needs::Unknown => true,
                Needs::Known { keys, .. } => keys.iter().all(&is_there),
            };
            has_all && !earlier.any(|earlier| one.concern.comes_after(&earlier.concern))
        })?;
        Some((place, self.waiting.remove(place)?))
    }

    /// Has one wait on where it was [taken out](Self::take_free).
    pub(super) fn put_back(&mut self, place: usize, waiting: Waiting<T, K>) {
        self.waiting.insert(place, waiting);
    }
}

#[cfg(test)]
mod tests {
    use shunt_model::{RenderOptions, Renderer, RendererEvent, decode};

    use super::*;

    /// The footprint of a service on this address, or of everything.
    fn footprint(line: &str) -> Footprint {
        let mut renderer = Renderer::new(RenderOptions::default());
        let first = RendererEvent::Resync(shunt_model::Snapshot::default());
        renderer.commit(renderer.plan(first).unwrap());
        let event = decode(line).unwrap();
        Footprint::of(&event, &renderer.plan(event.clone()).unwrap())
    }

    fn service(name: &str, address: &str) -> Footprint {
        footprint(&format!(
            r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"{name}"}},
                "cluster_ips":["{address}"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},
                "backends":{{}}}}}}"#
        ))
    }

    fn asked(footprint: Footprint) -> Concern {
        Concern {
            in_order: false,
            footprint,
        }
    }

    fn line(footprint: Footprint) -> Concern {
        Concern {
            in_order: true,
            footprint,
        }
    }

    /// An event that waits for tables of these names.
    fn waiting(
        item: &'static str,
        concern: Concern,
        keys: &[&'static str],
    ) -> Waiting<&'static str, &'static str> {
        Waiting {
            item,
            concern,
            needs: Needs::Known {
                keys: keys.iter().copied().collect(),
                since: Instant::now(),
            },
        }
    }

    fn behind(item: &'static str, concern: Concern) -> Waiting<&'static str, &'static str> {
        Waiting {
            item,
            concern,
            needs: Needs::Unknown,
        }
    }

    /// Takes out those that are free in turn, once these tables are made.
    fn free(aside: &mut Aside<&'static str, &'static str>, made: &[&str]) -> Vec<&'static str> {
        let mut free = Vec::new();
        while let Some((_, one)) = aside.take_free(|key| made.contains(key)) {
            free.push(one.item);
        }
        free
    }

    #[test]
    fn only_what_has_to_do_with_one_that_waits_is_held_up() {
        let mut aside = Aside::default();
        assert!(!aside.holds_up(&line(Footprint::all())), "nothing waits");
        let wide = || service("wide", "10.96.0.1");
        aside.push(waiting("wide", asked(wide()), &["table"]));
        for (what, footprint, is_held_up) in [
            ("the same service", wide(), true),
            ("its frontend", service("other", "10.96.0.1"), true),
            ("its address later", service("wide", "10.96.0.9"), true),
            ("everything", Footprint::all(), true),
            ("another service", service("other", "10.96.0.2"), false),
            ("nothing", Footprint::default(), false),
        ] {
            assert_eq!(
                aside.holds_up(&asked(footprint.clone())),
                is_held_up,
                "{what}"
            );
            assert_eq!(aside.holds_up(&line(footprint)), is_held_up, "{what}");
        }
    }

    #[test]
    fn senders_that_do_not_wait_keep_their_order_and_hold_up_nobody_else() {
        let mut aside = Aside::default();
        let wide = service("wide", "10.96.0.1");
        aside.push(waiting("line 1", line(wide), &["table"]));
        let other = || service("other", "10.96.0.2");
        assert!(aside.holds_up(&line(other())), "line 2");
        assert!(aside.holds_up(&line(Footprint::default())), "their end");
        assert!(!aside.holds_up(&asked(other())), "a call");

        // What has to do with line 2 comes after it, and so after line 1.
        aside.push(behind("line 2", line(other())));
        assert!(aside.holds_up(&asked(other())));
        aside.push(behind("call 1", asked(other())));
        assert_eq!(free(&mut aside, &[]), [""; 0]);
        assert_eq!(free(&mut aside, &["table"]), ["line 1", "line 2", "call 1"]);
        assert!(aside.is_empty());
    }

    #[test]
    fn what_is_ready_first_goes_first_unless_it_has_to_wait() {
        let mut aside = Aside::default();
        let (a, b) = (|| service("a", "10.96.0.1"), || service("b", "10.96.0.2"));
        aside.push(waiting("a", asked(a()), &["1", "2"]));
        aside.push(waiting("a again", asked(a()), &["3"]));
        aside.push(waiting("b", asked(b()), &["3"]));
        assert_eq!(free(&mut aside, &["1", "3"]), ["b"]);
        assert!(aside.needs(&"2") && !aside.needs(&"4"));
        assert_eq!(free(&mut aside, &["1", "2", "3"]), ["a", "a again"]);
        assert!(!aside.needs(&"2"));
    }

    #[test]
    fn one_that_needs_something_after_all_waits_on_in_its_place() {
        let mut aside = Aside::default();
        let wide = || asked(service("wide", "10.96.0.1"));
        for item in ["first", "second", "third"] {
            aside.push(behind(item, wide()));
        }
        let (place, first) = aside.take_free(|_| false).unwrap();
        assert_eq!((place, first.item), (0, "first"));
        aside.put_back(place, waiting("first", wide(), &["table"]));
        assert_eq!(free(&mut aside, &[]), [""; 0]);
        assert_eq!(free(&mut aside, &["table"]), ["first", "second", "third"]);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let mut aside = Aside::default();
        for _ in 0..MOST {
            assert!(aside.has_room());
            aside.push(behind("one", asked(Footprint::all())));
        }
        assert!(!aside.has_room());
        drop(aside.take_free(|_| true));
        assert!(aside.has_room());
    }
}
