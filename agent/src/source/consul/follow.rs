//! Who follows what: a query for each service, or hints for all.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinSet};

use crate::source::{
    consul::{
        http::client::{Client, SOCKETS, STREAMS},
        watch::{
            hints::{Hinted, by_checks, by_services},
            told::Told,
            watcher::{Wake, Watcher},
        },
    },
    instances::frontend::Query,
};

/// How many sockets are left for what is asked besides.
const BESIDE: usize = 4;

/// At the start, the first reads come over so long at most, and for each of them so long.
const SPREAD: Duration = Duration::from_secs(1);
const SPREAD_OF_ONE: Duration = Duration::from_millis(10);

/// Whether so many queries cannot block each on a connection of its own.
pub(super) const fn needs_hints(has_tls: bool, queries: usize) -> bool {
    !has_tls && queries > SOCKETS - BESIDE
}

/// Begins to follow the queries. Gives those who wait for hints, if these are needed.
pub(super) fn follow(
    tasks: &mut JoinSet<()>,
    client: &Client,
    has_tls: bool,
    queries: Vec<Arc<Query>>,
    node: &str,
    told: &mpsc::Sender<Told>,
) -> Option<Arc<Hinted>> {
    let node: Arc<str> = node.into();
    let spread = SPREAD.min(SPREAD_OF_ONE * queries.len() as u32);
    let mut hinted = needs_hints(has_tls, queries.len()).then(Hinted::default);
    for (number, query) in queries.into_iter().enumerate() {
        let wake = match &mut hinted {
            Some(hinted) => Wake::Hints(hinted.add(&query.service)),
            None => Wake::Blocking,
        };
        let (client, node, told) = (client.clone(), Arc::clone(&node), told.clone());
        // The first connection is for what is asked besides.
        let lane = 1 + number / STREAMS;
        let watcher = Watcher::new(client, lane, query, node, wake, told);
        tasks.spawn(watcher.run(spread));
    }
    let hinted = Arc::new(hinted?);
    let hints = || (client.clone(), Arc::clone(&hinted), told.clone());
    let (client, all, told) = hints();
    tasks.spawn(by_checks(client, all, told));
    let (client, all, told) = hints();
    tasks.spawn(by_services(client, all, told));
    Some(hinted)
}
