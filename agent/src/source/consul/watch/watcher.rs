//! A query that is followed, in a task of its own.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use tokio::{
    sync::{Notify, mpsc},
    time::sleep,
};

use crate::source::{
    consul::{
        http::{
            client::{Answer, Client},
            error::AskError,
        },
        objects,
        watch::{
            cursor::{Cursor, Read, Worth},
            hinted::Hinted,
            pace::{Backoff, Bucket, Pace, part_of},
            rights,
            told::{News, Reason, Told, Topic, Trouble},
        },
    },
    instances::{instance::Instance, query::Query},
};

/// How a query learns that there is something new.
#[derive(Debug, Clone)]
pub(in crate::source::consul) enum Wake {
    /// It blocks at Consul.
    Blocking,
    /// It is told by those that do.
    Hints {
        /// When.
        hint: Arc<Notify>,
        /// Who has to know where its instances are.
        hinted: Arc<Hinted>,
    },
}

/// Follows the instances of a service, for ever.
#[derive(Debug)]
pub(in crate::source::consul) struct Watcher {
    client: Client,
    /// Which connection it shares.
    lane: usize,
    query: Arc<Query>,
    path: String,
    /// Our own node, if it is known.
    node: Arc<str>,
    wake: Wake,
    pace: Pace,
    told: mpsc::Sender<Told>,
    cursor: Cursor,
    /// What was last believed; `None`: nothing yet.
    known: Option<Vec<Instance>>,
    /// Since when it is not up to date.
    stale_since: Option<SystemTime>,
    /// Whether the agent was out of reach since what was last believed.
    is_back: bool,
}

/// Nobody listens any more.
pub(super) struct Unheard;

impl Watcher {
    /// Knows nothing yet.
    pub(in crate::source::consul) fn new(
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
    pub(in crate::source::consul) async fn run(mut self, spread: std::time::Duration) {
        sleep(part_of(spread)).await;
        let mut backoff = Backoff::default();
        let mut bucket = Bucket::new();
        loop {
            self.is_back |= self.cursor.notice_end();
            if let Wake::Hints { hint, .. } = &self.wake
                && matches!(self.cursor.read(), Read::Blocking(_))
            {
                hint.notified().await;
                self.cursor.hinted();
            }
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

    /// Asks once, and tells what comes of it.
    async fn turn(&mut self) -> Result<Result<(), Reason>, Unheard> {
        let (path, limit) = self.question();
        let answer = match self.client.get(self.lane, &path, limit).await {
            Ok(answer) => answer,
            Err(error) => {
                self.is_back |= error.is_lost_contact();
                return Ok(Err(Reason::Failed(error)));
            }
        };
        let Answer {
            index,
            known_leader,
            body,
            connection,
        } = answer;
        let Some(index) = index else {
            let text = "it has no X-Consul-Index".to_owned();
            return Ok(Err(Reason::Failed(AskError::Unreadable(text))));
        };
        match self.cursor.answered(index, connection) {
            Worth::Known => {}
            Worth::New => match self.believe(&body).await {
                Ok(news) => self.tell(news).await?,
                Err(reason) => return Ok(Err(reason)),
            },
            // Until the leader has spoken, nothing is known that was not known before.
            Worth::Doubtful => return Ok(Ok(())),
        }
        if known_leader == Some(false) {
            self.fail(Reason::NoLeader).await?;
        } else if self.stale_since.take().is_some() {
            self.tell(News::UpToDate).await?;
        }
        Ok(Ok(()))
    }

    /// What to ask, and how long an answer may take.
    fn question(&self) -> (String, std::time::Duration) {
        let Self { path, pace, .. } = self;
        match self.cursor.read() {
            Read::Default => (path.clone(), pace.answer),
            Read::Stale => (objects::with(path, "stale"), pace.answer),
            Read::Blocking(index) => {
                let wait = pace.wait.as_millis();
                (
                    objects::with(path, &format!("stale&index={index}&wait={wait}ms")),
                    pace.blocked(),
                )
            }
        }
    }

    /// The instances of an answer, if it says the truth: an empty one may only say that we see nothing.
    async fn believe(&mut self, body: &[u8]) -> Result<News, Reason> {
        let objects::Instances {
            instances,
            unreadable,
        } = objects::found(self.query.kind, body).map_err(Reason::Failed)?;
        let had_some = self.known.as_ref().is_none_or(|known| !known.is_empty());
        if instances.is_empty() && unreadable.is_empty() && had_some {
            let known = self.known.as_deref().unwrap_or_default();
            let limit = self.pace.answer;
            let missing =
                rights::missing(&self.client, &self.query, known, &self.node, limit).await;
            if let Some(missing) = missing.map_err(Reason::Failed)? {
                return Err(Reason::Denied(missing));
            }
        }
        if let Wake::Hints { hinted, .. } = &self.wake {
            let nodes = instances.iter().map(|instance| &*instance.node);
            hinted.is_on(&self.query.service, nodes);
        }
        self.known = Some(instances.clone());
        Ok(News::Instances {
            instances,
            unreadable,
            is_back: std::mem::take(&mut self.is_back),
        })
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
