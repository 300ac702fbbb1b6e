//! A follower that receives all changes knows the present answer.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shunt_model::{
    Answer, Delta, EndpointKey, EndpointView, Interest, Membership, Query, Target, decode,
};

use crate::{
    strategies::{history, queries},
    world::{Change, World, by_name},
};

/// The state that a reader has put together from the changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Accumulated {
    targets: Vec<Target>,
    endpoints: BTreeMap<EndpointKey, EndpointView>,
    member_of: Vec<Membership>,
    /// Set if nothing is behind it: true if something is there all the same.
    empty: Option<bool>,
}

impl Accumulated {
    fn of(answer: &Answer) -> Self {
        let mut accumulated = Self::default();
        accumulated.apply(&Delta::all(answer), false);
        accumulated
    }

    /// Applies what is new, one endpoint after the other. `has_some`: an endpoint is there before and
    /// after, so one has to be there at every instant.
    fn apply(&mut self, delta: &Delta<'_>, has_some: bool) {
        let Delta {
            targets,
            rebind,
            adds,
            removes,
            empty,
            member_of,
        } = delta;
        let before = self.targets.clone();
        if let Some(targets) = targets {
            self.targets = targets.to_vec();
        }
        let owners = |targets: &[Target]| -> Vec<_> {
            let used = targets.iter().filter(|target| target.in_use);
            used.map(Target::owner).collect()
        };
        if *rebind {
            assert_ne!(owners(&before), owners(&self.targets), "nobody else has it");
        }
        for add in adds {
            let known = self.endpoints.insert(add.key, (*add).clone());
            assert_ne!(known.as_ref(), Some(*add), "nothing is new of it");
        }
        for key in removes {
            assert!(self.endpoints.remove(key).is_some(), "{key:?} is unknown");
            assert!(!has_some || !self.endpoints.is_empty(), "a gap at {key:?}");
        }
        self.empty = match empty {
            Some(empty) => Some(empty.exists),
            None => self.empty.filter(|_| self.endpoints.is_empty()),
        };
        if let Some(member_of) = member_of {
            self.member_of = member_of.to_vec();
        }
    }

    /// Asserts that it equals the answer.
    fn expect(&self, answer: &Answer) {
        assert_eq!(self.targets, answer.targets, "{}", answer.query);
        let endpoints: Vec<_> = self.endpoints.values().cloned().collect();
        assert_eq!(endpoints, answer.endpoints, "{}", answer.query);
        assert_eq!(self.member_of, answer.member_of, "{}", answer.query);
        let empty = answer.endpoints.is_empty().then(|| answer.exists());
        assert_eq!(self.empty, empty, "{}", answer.query);
    }
}

/// One that follows a question, and takes an answer every so many events.
struct Reader {
    pace: usize,
    last: Answer,
    accumulated: Accumulated,
    /// True if there was an endpoint after each event since the last answer that it took.
    was_never_empty: bool,
}

impl Reader {
    fn take(&mut self, newest: &Answer) {
        let has_some = !self.last.endpoints.is_empty() && !newest.endpoints.is_empty();
        let kept = self.last.endpoints.iter().filter(|old| {
            let mut after = newest.endpoints.iter();
            after.any(|new| new.key == old.key)
        });
        let kept: Vec<_> = kept.map(|endpoint| endpoint.key).collect();
        let delta = Delta::between(&self.last, newest);
        for key in kept {
            assert!(
                !delta.removes.contains(&key),
                "{key:?} is there all the time"
            );
        }
        assert_eq!(delta.is_nothing(), self.last == *newest);
        self.accumulated.apply(&delta, has_some);
        self.accumulated.expect(newest);
        self.last = newest.clone();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn readers_know_what_is_there_and_see_no_gap(history in history()) {
        let mut world = World::new();
        let mut readers = Vec::<Reader>::new();
        for (number, change) in history.into_iter().enumerate() {
            world.apply(change);
            let answers = queries().into_iter().map(|query| world.renderer.lookup(&query));
            if number == 0 {
                for answer in answers {
                    for pace in [1, 3] {
                        let accumulated = Accumulated::of(&answer);
                        accumulated.expect(&answer);
                        let last = answer.clone();
                        let was_never_empty = !last.endpoints.is_empty();
                        readers.push(Reader { pace, last, accumulated, was_never_empty });
                    }
                }
                continue;
            }
            for (answer, readers) in answers.zip(readers.chunks_mut(2)) {
                for reader in readers {
                    reader.was_never_empty &= !answer.endpoints.is_empty();
                    if number.is_multiple_of(reader.pace) {
                        reader.take(&answer);
                        let is_empty = reader.accumulated.endpoints.is_empty();
                        prop_assert!(!reader.was_never_empty || !is_empty);
                        reader.was_never_empty = !is_empty;
                    }
                }
            }
        }
    }

    #[test]
    fn every_question_whose_answer_changes_is_concerned(history in history()) {
        let mut world = World::new();
        let mut interest = Interest::default();
        let queries = queries();
        queries.iter().for_each(|query| interest.insert(query.clone()));
        for change in history {
            let ask = |world: &World| -> Vec<Answer> {
                queries.iter().map(|query| world.renderer.lookup(query)).collect()
            };
            let before = ask(&world);
            let plan = world.plan(change);
            let concerned = world.renderer.concerned(&plan, &interest);
            let generation = world.renderer.generation();
            world.renderer.commit(plan);
            prop_assert_eq!(world.renderer.generation(), generation + 1);
            for (before, after) in before.iter().zip(ask(&world)) {
                let is_concerned = concerned.contains(&after.query);
                prop_assert!(*before == after || is_concerned, "{}", after.query);
            }
        }
    }

    #[test]
    fn an_event_concerns_few_questions_as_it_concerns_many(history in history(), chosen in 0..72usize) {
        let mut world = World::new();
        let queries: Vec<Query> = queries();
        let (mut one, mut all) = (Interest::default(), Interest::default());
        queries.iter().for_each(|query| all.insert(query.clone()));
        let query = &queries[chosen % queries.len()];
        one.insert(query.clone());
        for change in history {
            let plan = world.plan(change);
            let of_all = world.renderer.concerned(&plan, &all).contains(query);
            let of_one = world.renderer.concerned(&plan, &one).contains(query);
            prop_assert_eq!(of_one, of_all);
            world.renderer.commit(plan);
        }
        one.remove(query);
        prop_assert!(one.is_empty());
    }
}

#[test]
fn an_address_that_changes_hands_is_followed() {
    let service = |name: &str, ip: &str| {
        format!(
            r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"{name}"}},"cluster_ips":["10.96.0.1"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},"backends":{{"http":[{{"ip":"{ip}","port":8080}}]}}}}}}"#
        )
    };
    let resync = r#"{"event":"Resync","node_ips":[],"services":[]}"#;
    let mut world = World::told(&[resync, &service("a", "10.1.1.1")]);
    let mut last = world.ask("10.96.0.1:80/tcp");
    let mut next = |world: &World| {
        let newest = world.ask("10.96.0.1:80/tcp");
        let delta = Delta::between(&last, &newest);
        let empty = delta.empty.map(|empty| empty.exists);
        let keys = delta.adds.iter().map(|add| add.key.ip.to_string());
        let removes = delta.removes.iter().map(|key| key.ip.to_string());
        let found = (delta.rebind, keys.collect(), removes.collect(), empty);
        last = newest;
        found
    };
    let list = |texts: &[&str]| -> Vec<String> { texts.iter().map(|&text| text.into()).collect() };
    let (a, b) = (list(&["10.1.1.1"]), list(&["10.1.1.2"]));
    world.tell(&service("b", "10.1.1.2"));
    assert_eq!(next(&world), (false, list(&[]), list(&[]), None), "b waits");
    world.tell(r#"{"event":"DeleteService","id":{"namespace":"default","name":"a"}}"#);
    assert_eq!(next(&world), (true, b.clone(), a, None), "b has it");
    world.tell(&service("b", "10.1.1.2").replace(r#"[{"ip":"10.1.1.2","port":8080}]"#, "[]"));
    let empty = (false, list(&[]), b, Some(true));
    assert_eq!(next(&world), empty, "nobody is behind it");
    world.tell(r#"{"event":"DeleteService","id":{"namespace":"default","name":"b"}}"#);
    assert_eq!(next(&world), (true, list(&[]), list(&[]), Some(false)));
}

/// A service with one endpoint at `ip`, and with this split of its port.
fn split_service(name: &str, cluster_ip: &str, ip: &str, split: &str) -> String {
    format!(
        r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"{name}"}},"cluster_ips":["{cluster_ip}"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},"backends":{{"http":[{{"ip":"{ip}","port":8080}}]}}{split}}}}}"#
    )
}

#[test]
fn workloads_behind_each_backend_of_a_split_concern_its_followers() {
    let split = r#","splits":{"http":{"mode":"available","backends":[{"service":{"namespace":"default","name":"canary"},"port":80,"weight":1},{"ip":"192.0.2.9","port":8080,"weight":1}]}}"#;
    let resync = r#"{"event":"Resync","node_ips":[],"services":[]}"#;
    for address in ["10.1.1.1", "192.0.2.9"] {
        let mut world = World::told(&[
            resync,
            &split_service("canary", "10.96.0.2", "10.1.1.1", ""),
            &split_service("web", "10.96.0.1", "10.1.1.2", split),
        ]);
        let by_address: Query = "10.96.0.1:80/tcp".parse().unwrap();
        for (number, query) in [by_address, by_name("web", Some(80))].iter().enumerate() {
            let before = world.renderer.lookup(query);
            let pod = format!(
                r#"{{"event":"UpdateWorkloads","workloads":[{{"id":{{"kind":"Pod","namespace":"default","name":"pod-{number}"}},"ips":["{address}"]}}],"gone":[]}}"#
            );
            let change = Change::Event(decode(&pod).unwrap());
            assert!(world.concerns(change, query), "{query}: {address}");
            let is_first = number == 0;
            let differs = world.renderer.lookup(query) != before;
            assert_eq!(differs, is_first, "the first pod has the address");
        }
    }
}

#[test]
fn addresses_of_the_host_concern_those_who_follow_them() {
    let mut world = World::told(&[r#"{"event":"Resync","node_ips":[],"services":[]}"#]);
    let (changed, same): (Query, Query) =
        ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let host = |text: &[&str]| {
        let addresses = text.iter().map(|address| address.parse().unwrap());
        Change::HostAddresses(addresses.collect())
    };
    assert_eq!(world.targets("192.0.2.1"), [""; 0]);
    assert!(world.concerns(host(&["192.0.2.1", "192.0.2.2"]), &changed));
    assert_eq!(world.targets("192.0.2.1"), ["Node - own"]);
    assert!(!world.concerns(host(&["192.0.2.2"]), &same), "it stays");
    assert_eq!(world.targets("192.0.2.1"), [""; 0]);
    assert!(world.concerns(host(&[]), &same));
    assert_eq!(world.targets("192.0.2.2"), [""; 0]);
}
