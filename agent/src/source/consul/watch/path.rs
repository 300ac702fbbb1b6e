//! Any path of Consul's that is followed.

use std::time::{Duration, Instant, SystemTime};

use tokio::{sync::mpsc, time::sleep};

use crate::source::consul::{
    http::{client::Client, error::AskError},
    objects::with,
    watch::{
        cursor::{Cursor, Read, Worth},
        hinted::Hinted,
        pace::{Backoff, Bucket, Pace},
        told::{News, Reason, Told, Topic, Trouble},
    },
};

/// What came of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source::consul) enum Taken {
    /// Somebody may want to know.
    News,
    /// It was another one than before, and says nothing that anybody wants to know.
    Nothing,
}

/// Follows what is at a path, for ever. `take` has the body of each answer with another index; what it
/// cannot read is asked for again, as after any error. After one that says nothing it is not asked again
/// at once, as the next one may say as little. After each answer, also one that says nothing new,
/// `all` are looked at.
pub(in crate::source::consul) async fn follow(
    client: Client,
    path: &str,
    topic: Topic,
    told: mpsc::Sender<Told>,
    mut take: impl FnMut(&[u8]) -> Result<Taken, AskError>,
    all: Option<&Hinted>,
) {
    let pace = Pace::default();
    let (mut cursor, mut backoff, mut bucket) =
        (Cursor::default(), Backoff::default(), Bucket::new());
    let mut stale_since = None;
    loop {
        cursor.notice_end();
        let (question, limit) = match cursor.read() {
            Read::Default => (path.to_owned(), pace.answer),
            Read::Stale => (with(path, "stale"), pace.answer),
            Read::Blocking(index) => {
                let wait = pace.wait.as_millis();
                let parameters = format!("stale&index={index}&wait={wait}ms");
                (with(path, &parameters), pace.blocked())
            }
        };
        let answer = client.get(0, &question, limit).await;
        let taken = answer.and_then(|answer| {
            let index = answer
                .index
                .ok_or_else(|| AskError::Unreadable("it has no X-Consul-Index".to_owned()))?;
            match cursor.answered(index, answer.connection) {
                Worth::New => {
                    let begin = Instant::now();
                    Ok(match take(&answer.body)? {
                        Taken::News => Duration::ZERO,
                        Taken::Nothing => pace.rest(begin.elapsed()),
                    })
                }
                // Of a doubtful answer the leader is asked first.
                Worth::Known | Worth::Doubtful => Ok(Duration::ZERO),
            }
        });
        let (news, pause) = match taken {
            Ok(rest) => {
                backoff.reset();
                if let Some(hinted) = all {
                    hinted.sweep().await;
                }
                let news = stale_since.take().map(|_| News::UpToDate);
                (news, bucket.take(&pace, Instant::now()).max(rest))
            }
            Err(error) => {
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
