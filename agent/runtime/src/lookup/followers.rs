//! Everyone who follows a question.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    sync::Arc,
};

use shunt_model::{Interest, Plan, Query, Renderer};
use tokio::sync::watch;

use crate::lookup::{
    following::Following,
    observed::Observed,
    relay::{New, Readers, Relay},
};

/// Number of questions from which those are looked for that have no follower any more.
const FEW: usize = 64;

/// Number of new answers that are handed on together. The first followers get theirs while the answers of the
/// others are looked up.
const TOGETHER: usize = 64;

/// The questions that have followers, each once, with their newest answers. A question without a follower costs
/// an event nothing.
#[derive(Debug, Default)]
pub struct Followers {
    interest: Interest,
    followed: HashMap<Query, Followed>,
    /// Number of questions there may be until those are looked for that have no follower any more.
    limit: usize,
    /// Runs from the first question on.
    relay: Option<Relay>,
}

#[derive(Debug)]
struct Followed {
    newest: Arc<Observed>,
    readers: Arc<Readers>,
}

/// The questions that an event may give another answer to.
#[derive(Debug, Default)]
pub struct Concerned(BTreeSet<Query>);

impl Followers {
    /// Follows `query` from what `renderer` answers now.
    ///
    /// # Errors
    ///
    /// If the thread that hands answers on cannot be started.
    pub fn follow(&mut self, query: &Query, renderer: &Renderer) -> io::Result<Following> {
        if self.relay.is_none() {
            self.relay = Some(Relay::start()?);
        }
        self.forget_some();
        let followed = self.followed.entry(query.clone()).or_insert_with(|| {
            self.interest.insert(query.clone());
            let newest = Arc::new(observe(query, renderer));
            let (readers, _) = watch::channel(Arc::clone(&newest));
            Followed {
                newest,
                readers: Arc::new(readers),
            }
        });
        let newest = Arc::clone(&followed.newest);
        Ok(Following::new(newest, followed.readers.subscribe()))
    }

    /// The questions that `plan` may give another answer to, before it is committed.
    pub fn concerned(&self, plan: &Plan, renderer: &Renderer) -> Concerned {
        Concerned(renderer.concerned(plan, &self.interest))
    }

    /// All questions.
    pub fn all(&self) -> Concerned {
        Concerned(self.followed.keys().cloned().collect())
    }

    /// Updates the answers of those questions whose answers are others now.
    pub fn update(&mut self, Concerned(queries): Concerned, renderer: &Renderer) {
        let mut new = Vec::new();
        for query in queries {
            let Some(followed) = self.followed.get_mut(&query) else {
                continue;
            };
            if followed.readers.is_closed() {
                self.followed.remove(&query);
                self.interest.remove(&query);
                continue;
            }
            let newest = observe(&query, renderer);
            // After the first Resync, an empty answer is an answer.
            let is_first = followed.newest.generation == 0;
            if is_first || newest.answer != followed.newest.answer {
                followed.newest = Arc::new(newest);
                let readers = Arc::downgrade(&followed.readers);
                new.push((query, readers, Arc::clone(&followed.newest)));
            }
            if new.len() == TOGETHER {
                self.hand_on(&mut new);
            }
        }
        self.hand_on(&mut new);
    }

    fn hand_on(&self, new: &mut Vec<New>) {
        if let Some(relay) = self.relay.as_ref().filter(|_| !new.is_empty()) {
            relay.hand_on(new.drain(..));
        }
    }

    /// Returns the number of known questions.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.followed.len()
    }

    /// Forgets the questions that have no follower any more, whenever there are twice as many as stayed
    /// the last time: so each is looked at only a few times.
    fn forget_some(&mut self) {
        if self.followed.len() < self.limit.max(FEW) {
            return;
        }
        let Self {
            interest, followed, ..
        } = self;
        followed.retain(|query, followed| {
            let stays = !followed.readers.is_closed();
            if !stays {
                interest.remove(query);
            }
            stays
        });
        self.limit = 2 * self.followed.len();
    }
}

/// Returns the renderer's answer now.
pub(crate) fn observe(query: &Query, renderer: &Renderer) -> Observed {
    Observed {
        generation: renderer.generation(),
        answer: renderer.lookup(query),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use shunt_model::{RenderOptions, decode};
    use tokio::{task::JoinSet, time::timeout};

    use super::*;
    use crate::error::Ending;

    /// Maximum time of an answer, with much else to do on the machine.
    const SOON: Duration = Duration::from_secs(10);

    struct World {
        renderer: Renderer,
        followers: Followers,
    }

    impl World {
        fn new() -> Self {
            let mut world = Self {
                renderer: Renderer::new(RenderOptions::default()),
                followers: Followers::default(),
            };
            world.tell(r#"{"event":"Resync","node_ips":[],"services":[]}"#);
            world
        }

        fn tell(&mut self, line: &str) {
            let Self {
                renderer,
                followers,
            } = self;
            let plan = renderer.plan(decode(line).unwrap()).unwrap();
            let concerned = followers.concerned(&plan, renderer);
            renderer.commit(plan);
            followers.update(concerned, renderer);
        }

        /// The service with this number has one endpoint with this last byte.
        fn serve(&mut self, service: u16, host: u8) {
            let [high, low] = service.to_be_bytes();
            self.tell(&format!(
                r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"s{service}"}},"cluster_ips":["10.96.{high}.{low}"],"ports":{{"http":{{"protocol":"TCP","port":80}}}},"backends":{{"http":[{{"ip":"10.1.1.{host}","port":8080}}]}}}}}}"#
            ));
        }

        fn follow(&mut self, service: u16) -> Following {
            let [high, low] = service.to_be_bytes();
            let query = format!("10.96.{high}.{low}:80/tcp").parse().unwrap();
            self.followers.follow(&query, &self.renderer).unwrap()
        }
    }

    /// The last bytes of the endpoints' addresses.
    fn hosts(observed: &Observed) -> Vec<u8> {
        let endpoints = observed.answer.endpoints.iter();
        let last = |text: String| text.rsplit('.').next().unwrap().parse().unwrap();
        endpoints
            .map(|endpoint| last(endpoint.key.ip.to_string()))
            .collect()
    }

    async fn next(following: &mut Following) -> Vec<u8> {
        let changed = timeout(SOON, following.changed()).await;
        hosts(changed.expect("an answer comes").unwrap())
    }

    #[tokio::test]
    async fn one_who_follows_begins_with_what_is_and_is_told_what_becomes() {
        let mut world = World::new();
        world.serve(1, 1);
        let (mut fast, mut slow) = (world.follow(1), world.follow(1));
        assert_eq!(hosts(fast.current()), [1]);
        let generation = fast.current().generation;
        world.serve(2, 9);
        world.serve(1, 2);
        assert_eq!(next(&mut fast).await, [2]);
        assert_eq!(fast.current().generation, generation + 2);
        world.serve(1, 3);
        // A follower that begins now does not get what was before.
        let mut late = world.follow(1);
        assert_eq!(hosts(late.current()), [3]);
        assert_eq!(next(&mut fast).await, [3]);
        while hosts(slow.current()) != [3] {
            assert_ne!(
                next(&mut slow).await,
                [1],
                "what is over does not come back"
            );
        }
        world.serve(1, 4);
        assert_eq!(next(&mut late).await, [4]);
        drop(world);
        for following in [&mut fast, &mut slow] {
            while hosts(following.current()) != [4] {
                next(following).await;
            }
            assert_eq!(following.changed().await.unwrap_err(), Ending);
        }
    }

    #[tokio::test]
    async fn one_who_follows_before_the_first_resync_waits_for_it() {
        let mut world = World {
            renderer: Renderer::new(RenderOptions::default()),
            followers: Followers::default(),
        };
        let mut following = world.follow(1);
        assert_eq!(following.current().generation, 0);
        world.tell(r#"{"event":"Resync","node_ips":[],"services":[]}"#);
        timeout(SOON, following.begin()).await.unwrap().unwrap();
        assert_eq!(following.current().generation, 1);
        assert!(!following.current().answer.exists());
    }

    #[tokio::test]
    async fn what_nobody_follows_any_more_is_forgotten() {
        let mut world = World::new();
        world.serve(1, 1);
        drop(world.follow(1));
        assert_eq!(world.followers.count(), 1);
        world.serve(1, 2);
        assert_eq!(world.followers.count(), 0, "an event that concerns it");
        let kept = world.follow(0);
        for service in 1..1000 {
            drop(world.follow(service));
        }
        assert!(
            world.followers.count() <= 2 * FEW,
            "one of a thousand is followed"
        );
        drop(kept);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_thousand_follow_one_question() {
        let mut world = World::new();
        world.serve(1, 1);
        let mut told = JoinSet::new();
        for _ in 0..10_000 {
            let mut following = world.follow(1);
            told.spawn(async move { (next(&mut following).await, Instant::now()) });
        }
        assert_eq!(world.followers.count(), 1);
        let begun = Instant::now();
        world.serve(1, 2);
        let took = begun.elapsed();
        let mut last = Duration::ZERO;
        while let Some(one) = told.join_next().await {
            let (hosts, at) = one.unwrap();
            assert_eq!(hosts, [2]);
            last = last.max(at.duration_since(begun));
        }
        println!("the event took {took:?}, the last of 10,000 was told after {last:?}");
    }
}
