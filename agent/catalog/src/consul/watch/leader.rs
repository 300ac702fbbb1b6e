//! The leader of Consul's servers, or the lack of one.

use std::time::{Duration, SystemTime};

use tokio::{sync::mpsc, time::sleep};

use crate::consul::{
    http::client::Client,
    objects::read,
    watch::told::{News, Reason, Told, Topic, Trouble},
};

/// Interval of the requests: a query that blocks hears nothing of a lost quorum before its wait is over.
const AGAIN: Duration = Duration::from_secs(5);

/// Longest time for the answer.
const LIMIT: Duration = Duration::from_secs(4);

const PATH: &str = "/v1/status/leader";

/// Requests the leader again and again, and reports when there is none.
pub(in crate::consul) async fn look_for_leader(client: Client, told: mpsc::Sender<Told>) {
    let mut stale_since = None;
    loop {
        let answer = client.get(0, PATH, LIMIT).await;
        let leader = answer.and_then(|answer| read::<String>(&answer.body));
        let trouble = match leader {
            Ok(leader) if leader.is_empty() => Some(Reason::NoLeader),
            Ok(_) => None,
            Err(error) => Some(Reason::Failed(error)),
        };
        let news = match trouble {
            None => stale_since.take().map(|_| News::UpToDate),
            Some(reason) => {
                let since = *stale_since.get_or_insert_with(SystemTime::now);
                Some(News::Stale(Trouble { since, reason }))
            }
        };
        if let Some(news) = news {
            let topic = Topic::Leader;
            if told.send(Told { topic, news }).await.is_err() {
                return;
            }
        }
        sleep(AGAIN).await;
    }
}
