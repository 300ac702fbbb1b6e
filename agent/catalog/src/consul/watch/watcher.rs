//! A query that is followed, in a task of its own.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    consul::{
        http::{
            client::{Answer, Client},
            error::AskError,
        },
        objects,
        watch::{
            cursor::{Cursor, Read, Worth},
            hinted::Waiter,
            pace::{Backoff, Bucket, Pace, is_early, part_of},
            rights::{self, Hidden},
            told::{News, Reason, Told, Topic, Trouble},
        },
    },
    instances::{instance::Instance, query::Query},
};

/// Way in which a query notices changes.
#[derive(Debug)]
pub(in crate::consul) enum Wake {
    /// It blocks at Consul.
    Blocking,
    /// It gets hints from those that do.
    Hints(Waiter),
}

/// Follows the instances of a service, for ever.
#[derive(Debug)]
pub(in crate::consul) struct Watcher {
    client: Client,
    /// Number of the connection that it shares.
    lane: usize,
    query: Arc<Query>,
    path: String,
    /// Our own node, if it is known.
    node: Arc<str>,
    wake: Wake,
    pace: Pace,
    told: mpsc::Sender<Told>,
    cursor: Cursor,
    /// Instances that were last believed; `None`: nothing yet.
    known: Option<Vec<Instance>>,
    /// Parts of that answer that could not be read.
    unreadable: Vec<String>,
    /// The answer that was read last, by its hash: most are the same again.
    body: Option<u64>,
    hasher: RandomState,
    /// Rights that the token lacks to see all that was known.
    lacks: Option<String>,
    /// Since when it is not up to date.
    stale_since: Option<SystemTime>,
    /// True if the agent was out of reach since what was last believed.
    is_back: bool,
}

/// The receiver is gone.
pub(super) struct Unheard;

impl Watcher {
    /// Knows nothing yet.
    pub(in crate::consul) fn new(
        client: Client,
        lane: usize,
        query: Arc<Query>,
        node: Arc<str>,
        wake: Wake,
        told: mpsc::Sender<Told>,
    ) -> Self {
        Self {
            client,
            lane,
            path: objects::path(&query),
            query,
            node,
            wake,
            pace: Pace::default(),
            told,
            cursor: Cursor::default(),
            known: None,
            unreadable: Vec::new(),
            body: None,
            hasher: RandomState::new(),
            lacks: None,
            stale_since: None,
            is_back: false,
        }
    }

    /// With other times.
    #[cfg(test)]
    pub(super) fn at(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Follows it, from some time within `spread` on.
    pub(in crate::consul) async fn run(mut self, spread: Duration) {
        sleep(part_of(spread)).await;
        let mut backoff = Backoff::default();
        let mut bucket = Bucket::new();
        loop {
            self.is_back |= self.cursor.notice_end();
            self.wait_for_hint().await;
            let asked = match self.turn().await {
                Ok(asked) => asked,
                Err(Unheard) => return,
            };
            let pause = match asked {
                Ok(()) => {
                    backoff.reset();
                    bucket.take(&self.pace, Instant::now())
                }
                Err(reason) => {
                    self.cursor.failed();
                    if self.fail(reason).await.is_err() {
                        return;
                    }
                    backoff.pause(&self.pace)
                }
            };
            sleep(pause).await;
        }
    }

    /// Waits for a hint, in place of blocking at Consul.
    async fn wait_for_hint(&mut self) {
        let Wake::Hints(waiter) = &mut self.wake else {
            return;
        };
        if matches!(self.cursor.read(), Read::Blocking(_)) {
            if self.lacks.is_some() {
                drop(timeout(self.pace.hidden, waiter.hinted()).await);
            } else {
                waiter.hinted().await;
            }
            self.is_back |= self.cursor.notice_end();
            self.cursor.hinted();
        }
        // The source of hints may have missed the agent while no query ran here.
        self.is_back |= waiter.notice_loss();
    }

    /// Sends one request, and reports its result.
    async fn turn(&mut self) -> Result<Result<(), Reason>, Unheard> {
        let asked_at = Instant::now();
        let answer = match self.ask().await {
            Ok(answer) => answer,
            Err(error) => {
                self.is_back |= error.is_lost_contact();
                return Ok(Err(Reason::Failed(error)));
            }
        };
        let Answer {
            index,
            known_leader,
            is_filtered,
            body,
            connection,
        } = answer;
        let Some(index) = index else {
            let text = "it has no X-Consul-Index".to_owned();
            return Ok(Err(Reason::Failed(AskError::Unreadable(text))));
        };
        let is_early = is_early(asked_at.elapsed(), self.wait());
        let worth = self.cursor.answered(index, connection, is_early);
        if worth == Worth::Doubtful {
            // Until the leader has spoken, nothing is known that was not known before.
            return Ok(Ok(()));
        }
        let hash = Some(self.hasher.hash_one(&body));
        let is_as_before = worth == Worth::Known && hash == self.body;
        if !is_as_before || self.is_back || self.lacks.is_some() {
            match self.believe(&body, is_filtered, worth).await {
                Ok(Some(news)) => self.tell(news).await?,
                Ok(None) => {}
                Err(reason) => return Ok(Err(reason)),
            }
            self.body = hash;
        }
        if known_leader == Some(false) {
            self.fail(Reason::NoLeader).await?;
        } else if self.lacks.is_none() && self.stale_since.take().is_some() {
            self.tell(News::UpToDate).await?;
        }
        Ok(Ok(()))
    }

    /// Returns the time that a query blocks.
    const fn wait(&self) -> Duration {
        if self.lacks.is_some() {
            self.pace.hidden
        } else {
            self.pace.wait
        }
    }

    async fn ask(&self) -> Result<Answer, AskError> {
        let Self {
            client,
            lane,
            path,
            pace,
            ..
        } = self;
        match self.cursor.read() {
            Read::Default => client.get(*lane, path, pace.answer).await,
            Read::Stale => {
                let path = objects::with(path, "stale");
                client.get(*lane, &path, pace.answer).await
            }
            Read::Blocking(index) => {
                let wait = self.wait();
                let milliseconds = wait.as_millis();
                let parameters = format!("stale&index={index}&wait={milliseconds}ms");
                let path = objects::with(path, &parameters);
                client.block(*lane, &path, pace.blocked(wait)).await
            }
        }
    }

    /// Returns the content of an answer if it differs from before: its instances, and those that are missing in it
    /// because the token may not see them.
    async fn believe(
        &mut self,
        body: &[u8],
        is_filtered: bool,
        worth: Worth,
    ) -> Result<Option<News>, Reason> {
        let objects::Instances {
            mut instances,
            unreadable,
        } = objects::found(self.query.kind, body).map_err(Reason::Failed)?;
        let limit = self.pace.answer;
        let (client, query) = (&self.client, &self.query);
        let vanished = vanished(self.known.as_deref().unwrap_or_default(), &instances);
        self.lacks = if !vanished.is_empty() {
            let hidden = rights::hidden(client, query, &vanished, limit).await;
            let Hidden {
                instances: hidden,
                lacks,
            } = hidden.map_err(Reason::Failed)?;
            instances.extend(hidden);
            lacks
        } else if self.known.is_none() && instances.is_empty() && unreadable.is_empty() {
            let missing = rights::missing(client, query, &self.node, limit).await;
            let missing = missing.map_err(Reason::Failed)?;
            let filtered =
                || "node:read on nodes of its instances, which Consul leaves out".to_owned();
            if let Some(missing) = missing.or_else(|| is_filtered.then(filtered)) {
                return Err(Reason::Denied(missing));
            }
            None
        } else {
            None
        };
        if let Wake::Hints(waiter) = &self.wake {
            let services = instances.iter().map(|instance| &*instance.service);
            let nodes = instances.iter().map(|instance| &*instance.node);
            waiter.is_concerned(services, nodes);
        }
        let is_as_before = worth == Worth::Known
            && !self.is_back
            && self.known.as_ref() == Some(&instances)
            && self.unreadable == unreadable;
        if is_as_before && self.lacks.is_none() {
            return Ok(None);
        }
        self.known = Some(instances.clone());
        self.unreadable.clone_from(&unreadable);
        let hidden = self.lacks.clone().map(|lacks| Trouble {
            since: *self.stale_since.get_or_insert_with(SystemTime::now),
            reason: Reason::Denied(lacks),
        });
        Ok(Some(News::Instances {
            instances,
            unreadable,
            is_back: std::mem::take(&mut self.is_back),
            hidden,
        }))
    }

    async fn fail(&mut self, reason: Reason) -> Result<(), Unheard> {
        let since = *self.stale_since.get_or_insert_with(SystemTime::now);
        self.tell(News::Stale(Trouble { since, reason })).await
    }

    async fn tell(&self, news: News) -> Result<(), Unheard> {
        let told = Told {
            topic: Topic::Instances(Arc::clone(&self.query)),
            news,
        };
        self.told.send(told).await.map_err(|_| Unheard)
    }
}

/// Returns the instances that are known and missing in an answer.
fn vanished<'a>(known: &'a [Instance], answer: &[Instance]) -> Vec<&'a Instance> {
    let there: HashSet<_> = answer.iter().map(key).collect();
    let vanished = known.iter().filter(|known| !there.contains(&key(known)));
    vanished.collect()
}

/// By what an instance is known again.
fn key(instance: &Instance) -> (&str, &str, &str) {
    (&instance.datacenter, &instance.node, &instance.id)
}
