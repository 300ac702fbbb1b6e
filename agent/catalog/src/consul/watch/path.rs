//! Any path of Consul's that is followed.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::{Duration, Instant, SystemTime},
};

use tokio::{sync::mpsc, time::sleep};

use crate::consul::{
    http::{client::Client, error::AskError},
    objects::with,
    watch::{
        cursor::{Cursor, Read, Worth},
        hinted::{Hinted, Waiter},
        pace::{Backoff, Bucket, Pace, is_early},
        told::{News, Reason, Told, Topic, Trouble},
    },
};

/// Result of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consul) enum Taken {
    /// It may have news for a receiver.
    News,
    /// It differs from the one before, and has no news for any receiver.
    Nothing,
}

/// News of the answers for queries that wait for hints.
#[derive(Debug)]
pub(in crate::consul) enum Heard<'a> {
    /// Nothing: no query waits.
    Nothing,
    /// That contact was lost.
    Losses(&'a Hinted),
    /// That, and each answer: all have a look then.
    All(&'a Hinted),
    /// Nothing: it waits for hints itself, in place of blocking.
    Waits(&'a Waiter),
}

impl Heard<'_> {
    fn lose(&self) {
        match self {
            Self::Losses(hinted) | Self::All(hinted) => hinted.lose(),
            Self::Nothing | Self::Waits(_) => {}
        }
    }
}

/// Follows the object at a path, for ever. `take` has the body of each answer that differs from the one before; if it
/// cannot read it, the object is requested again, as after any error. After an answer without news it is not requested
/// again at once, as the next one may have as little.
pub(in crate::consul) async fn follow(
    client: Client,
    path: &str,
    topic: Topic,
    told: mpsc::Sender<Told>,
    mut take: impl FnMut(&[u8]) -> Result<Taken, AskError>,
    heard: Heard<'_>,
) {
    let pace = Pace::default();
    let (mut cursor, mut backoff, mut bucket) =
        (Cursor::default(), Backoff::default(), Bucket::new());
    let hasher = RandomState::new();
    let mut known = None;
    let mut stale_since = None;
    loop {
        if let Heard::Waits(waiter) = &heard
            && matches!(cursor.read(), Read::Blocking(_))
        {
            waiter.hinted().await;
            cursor.hinted();
        }
        if cursor.notice_end() {
            heard.lose();
        }
        let asked_at = Instant::now();
        let answer = match cursor.read() {
            Read::Default => client.get(0, path, pace.answer).await,
            Read::Stale => client.get(0, &with(path, "stale"), pace.answer).await,
            Read::Blocking(index) => {
                let wait = pace.wait.as_millis();
                let parameters = format!("stale&index={index}&wait={wait}ms");
                let path = with(path, &parameters);
                client.block(0, &path, pace.blocked(pace.wait)).await
            }
        };
        let taken = answer.and_then(|answer| {
            let index = answer
                .index
                .ok_or_else(|| AskError::Unreadable("it has no X-Consul-Index".to_owned()))?;
            let is_early = is_early(asked_at.elapsed(), pace.wait);
            if cursor.answered(index, answer.connection, is_early) == Worth::Doubtful {
                // The leader is asked first.
                return Ok(Duration::ZERO);
            }
            // Consul changes answers without another index.
            let body = Some(hasher.hash_one(&answer.body));
            if body == known {
                return Ok(Duration::ZERO);
            }
            let begin = Instant::now();
            let taken = take(&answer.body)?;
            known = body;
            Ok(match taken {
                Taken::News => Duration::ZERO,
                Taken::Nothing => pace.rest(begin.elapsed()),
            })
        });
        let (news, pause) = match taken {
            Ok(rest) => {
                backoff.reset();
                if let Heard::All(hinted) = &heard {
                    hinted.sweep().await;
                }
                let news = stale_since.take().map(|_| News::UpToDate);
                (news, bucket.take(&pace, Instant::now()).max(rest))
            }
            Err(error) => {
                if error.is_lost_contact() {
                    heard.lose();
                }
                cursor.failed();
                let since = *stale_since.get_or_insert_with(SystemTime::now);
                let reason = Reason::Failed(error);
                let news = News::Stale(Trouble { since, reason });
                (Some(news), backoff.pause(&pace))
            }
        };
        if let Some(news) = news {
            let topic = topic.clone();
            if told.send(Told { topic, news }).await.is_err() {
                return;
            }
        }
        sleep(pause).await;
    }
}
