//! Assignment of followers: a query for each service, or hints for all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use crate::{
    consul::{
        http::client::{BESIDE, Client, SOCKETS, STREAMS},
        watch::{
            hinted::Hinted,
            hints::{by_checks, by_services},
            told::Told,
            watcher::{Wake, Watcher},
        },
    },
    instances::{
        frontend::Frontend,
        query::{Query, QueryKind, TierQueries},
        tier::{Datacenter, Failover, Tier},
    },
};

/// At the start, the first reads come over so long at most, and for each of them so long.
const SPREAD: Duration = Duration::from_secs(1);
const SPREAD_OF_ONE: Duration = Duration::from_millis(10);

/// So many datacenters of a resolver are reckoned with.
const TARGETS: usize = 4;

/// Returns the number of queries that block at the same time for these frontends, as far as that can be known before.
pub(super) fn expected(frontends: &[Frontend]) -> usize {
    let of = |frontend: &Frontend, tier: Tier| TierQueries::of(frontend, &tier).all();
    let configured = frontends.iter().flat_map(|frontend| {
        let tiers = frontend.configured_tiers().into_iter();
        tiers.flat_map(|tier| of(frontend, tier))
    });
    let configured: BTreeSet<Query> = configured.collect();
    let further = frontends.iter().map(|frontend| match frontend.failover {
        Failover::Datacenters { nearest, .. } => 2 * nearest,
        // Beside its instances, its resolver.
        Failover::Resolver => 1 + TARGETS,
    });
    configured.len() + further.sum::<usize>()
}

/// Returns whether so many queries need hints: over plain HTTP, many cannot block each on a connection of its own.
pub(super) const fn needs_hints(has_tls: bool, expected: usize) -> bool {
    !has_tls && expected > SOCKETS - BESIDE
}

/// Follows queries, each in a task of its own.
#[derive(Debug)]
pub(super) struct Followed {
    client: Client,
    node: Arc<str>,
    told: mpsc::Sender<Told>,
    /// Hints by datacenter, if these are needed.
    hinted: Option<BTreeMap<Datacenter, Hints>>,
    watchers: BTreeMap<Query, AbortHandle>,
    /// Number of queries that were ever begun.
    begun: usize,
}

/// The hints of a datacenter.
#[derive(Debug)]
struct Hints {
    hinted: Arc<Hinted>,
    /// Tasks that give them.
    tasks: [AbortHandle; 2],
}

impl Followed {
    /// Follows nothing yet, by hints if it [needs them](needs_hints).
    pub(super) fn new(
        client: Client,
        needs_hints: bool,
        node: &str,
        told: mpsc::Sender<Told>,
    ) -> Self {
        Self {
            client,
            node: node.into(),
            told,
            hinted: needs_hints.then(BTreeMap::new),
            watchers: BTreeMap::new(),
            begun: 0,
        }
    }

    /// Follows these, and no others any more.
    pub(super) fn follow(&mut self, tasks: &mut JoinSet<()>, wanted: BTreeSet<Query>) {
        self.watchers.retain(|query, watcher| {
            let is_wanted = wanted.contains(query);
            if !is_wanted {
                watcher.abort();
            }
            is_wanted
        });
        if let Some(hinted) = &mut self.hinted {
            hinted.retain(|datacenter, hints| {
                let mut followed = self.watchers.keys().chain(&wanted);
                let is_wanted = followed.any(|query| query.datacenter == *datacenter);
                if !is_wanted {
                    hints.tasks.iter().for_each(AbortHandle::abort);
                }
                is_wanted
            });
        }
        let new = wanted.into_iter();
        let new: Vec<Query> = new
            .filter(|query| !self.watchers.contains_key(query))
            .collect();
        let spread = SPREAD.min(SPREAD_OF_ONE * new.len() as u32);
        for query in new {
            // The first connection is for what is asked besides.
            let lane = 1 + self.begun / STREAMS;
            self.begun += 1;
            let wake = self.wake(tasks, &query);
            let watcher = Watcher::new(
                self.client.clone(),
                lane,
                Arc::new(query.clone()),
                Arc::clone(&self.node),
                wake,
                self.told.clone(),
            );
            let watcher = tasks.spawn(watcher.run(spread));
            self.watchers.insert(query, watcher);
        }
    }

    /// Returns the way in which a query notices changes. The first of a datacenter has hints given for it.
    fn wake(&mut self, tasks: &mut JoinSet<()>, query: &Query) -> Wake {
        let Some(hinted) = &mut self.hinted else {
            return Wake::Blocking;
        };
        if query.kind == QueryKind::MeshGateways {
            // There is one for all, and no list of services speaks of other datacenters.
            return Wake::Blocking;
        }
        let datacenter = &query.datacenter;
        let Hints { hinted: all, .. } = hinted.entry(datacenter.clone()).or_insert_with(|| {
            let all = Arc::<Hinted>::default();
            let parts = || {
                let (client, told) = (self.client.clone(), self.told.clone());
                (client, datacenter.clone(), Arc::clone(&all), told)
            };
            let (client, of, hinted, told) = parts();
            let checks = tasks.spawn(by_checks(client, of, hinted, told));
            let (client, of, hinted, told) = parts();
            let services = tasks.spawn(by_services(client, of, hinted, told));
            Hints {
                hinted: all,
                tasks: [checks, services],
            }
        });
        Wake::Hints(all.add(&query.service))
    }
}
