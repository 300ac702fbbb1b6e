//! The source: queries, claims and engine, tasks of the runtime that starts it.

mod deliver;
mod news;
mod report;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet, convert::Infallible, fmt, io, panic, pin::pin, process, sync::Arc,
};

use shunt_runtime::{ConsulMonitor, Ending, EventQueue, HereWatch};
use shunt_source::EventSource;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};
use tracing::{error, info, warn};

use crate::{
    consul::{
        claims::claim,
        exports::{keep_registered, registrations},
        follow::{Followed, expected, needs_hints},
        http::client::Client,
        identity::{Identity, identity},
        options::ConsulOptions,
        source::{
            deliver::{AHEAD, Claimed, Input, RETRY, deliver},
            news::Listener,
        },
        tiers::follow_tiers,
        watch::leader::look_for_leader,
    },
    instances::{
        engine::Engine,
        frontend::{Frontend, Vip},
        kept::{keep, read},
        query::Query,
    },
};

/// The exit status of a process that has panicked, as Rust has it.
const EXIT_PANICKED: i32 = 101;

/// Services of a Consul catalog.
#[derive(Debug)]
pub struct ConsulSource {
    options: ConsulOptions,
    client: Client,
    here: HereWatch,
    monitor: ConsulMonitor,
}

impl ConsulSource {
    /// Reads the files that TLS needs, and asks Consul nothing yet. `here` are the addresses on
    /// this host, whenever they change.
    ///
    /// # Errors
    ///
    /// The files do not have what they should.
    pub fn new(options: ConsulOptions, here: HereWatch) -> io::Result<Self> {
        let ConsulOptions {
            address,
            token,
            tls,
            frontends,
            ..
        } = &options;
        let queries = expected(frontends);
        let client = Client::new(address, token.clone(), tls.clone(), queries);
        Ok(Self {
            monitor: ConsulMonitor::new(address.to_string(), frontends.len() as u64),
            client: client.map_err(io::Error::other)?,
            options,
            here,
        })
    }

    /// Returns a monitor that shows the current state of the source.
    pub fn monitor(&self) -> ConsulMonitor {
        self.monitor.clone()
    }
}

impl fmt::Display for ConsulSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConsulOptions {
            address, frontends, ..
        } = &self.options;
        let count = frontends.len();
        write!(f, "following Consul at {address} for {count} frontends")
    }
}

impl EventSource for ConsulSource {
    type Handle = ();

    fn start(self, queue: EventQueue) -> io::Result<()> {
        queue.reports().set_consul(self.monitor.clone());
        let followed = tokio::spawn(async move {
            match self.run(queue).await {
                Err(Ending) => {}
            }
        });
        tokio::spawn(async move {
            if followed.await.is_err_and(|error| error.is_panic()) {
                error!("following Consul has failed: the agent ends, to be started anew");
                process::exit(EXIT_PANICKED);
            }
        });
        Ok(())
    }
}

impl ConsulSource {
    async fn run(self, queue: EventQueue) -> Result<Infallible, Ending> {
        let Self {
            options,
            client,
            here,
            monitor,
        } = self;
        let ConsulOptions {
            address,
            node,
            settle,
            mut frontends,
            state,
            ..
        } = options;
        let listener = Listener::new(monitor.clone(), Arc::clone(queue.reports()), settle);
        // Without its place nothing is known of an instance, so nothing is requested before.
        let identity = known(&client, node.as_deref(), &listener).await;
        info!(
            "Consul's agent is node {} of datacenter {}",
            identity.place.node, identity.place.datacenter
        );
        let place = &identity.place;
        for frontend in &mut frontends {
            frontend.settle_in(&place.datacenter);
        }
        let needs_hints = needs_hints(address.has_tls(), expected(&frontends));
        let mut engine = Engine::new(frontends);
        let kept = state.filter(|_| engine.has_tagged()).map(|path| {
            engine.restore_addresses(&read(&path));
            keep(path)
        });
        let queries: BTreeSet<Query> = engine.queries().cloned().collect();
        let (told, news) = mpsc::channel(AHEAD);
        let (claimed, claims) = mpsc::channel(AHEAD);
        let mut tasks = JoinSet::new();
        let wanted: Vec<Frontend> = engine.claimed().cloned().collect();
        if !wanted.is_empty() {
            tasks.spawn(claim_all(client.clone(), wanted, claimed));
        }
        let (tiered, tiers) = mpsc::unbounded_channel();
        let (wanted, mut wants) = mpsc::unbounded_channel();
        follow_tiers(
            &mut tasks,
            &client,
            &place.datacenter,
            engine.tiered(),
            &told,
            &tiered,
            needs_hints,
        );
        let exported = engine.exported();
        let gateways = exported.flat_map(|frontend| registrations(frontend, &place.node));
        tasks.spawn(keep_registered(
            client.clone(),
            place.node.clone(),
            gateways.collect(),
            monitor.clone(),
            told.clone(),
        ));
        tasks.spawn(look_for_leader(client.clone(), told.clone()));
        let watches = queries.len() as u64;
        let mut followed = Followed::new(client, needs_hints, &place.node, told);
        followed.follow(&mut tasks, queries);
        monitor.update(|state| {
            state.node = Some(place.node.to_string());
            state.datacenter = Some(place.datacenter.to_string());
            state.hints = needs_hints;
            state.watches = watches;
        });
        let input = Input {
            news,
            claims,
            here,
            identity,
            tiers,
            wanted,
            kept,
        };
        let mut delivered = pin!(deliver(engine, input, listener, queue));
        loop {
            tokio::select! {
                end = &mut delivered => return end,
                panicked = panicked(&mut tasks) => panic::resume_unwind(panicked),
                Some(queries) = wants.recv() => followed.follow(&mut tasks, queries),
            }
        }
    }
}

/// Waits for a task that has panicked.
async fn panicked(tasks: &mut JoinSet<()>) -> Box<dyn std::any::Any + Send> {
    loop {
        match tasks.join_next().await {
            Some(Err(error)) if error.is_panic() => return error.into_panic(),
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// Requests our identity until Consul returns it.
async fn known(client: &Client, node: Option<&str>, listener: &Listener) -> Identity {
    loop {
        match identity(client, node).await {
            Ok(identity) => return identity,
            Err(error) => {
                listener.unknown(&error);
                sleep(RETRY).await;
            }
        }
    }
}

/// Claims all addresses, one after the other, and reports each. Obstacles may go, so a failed claim is tried again.
async fn claim_all(client: Client, mut wanted: Vec<Frontend>, told: mpsc::Sender<Claimed>) {
    loop {
        let mut left = Vec::new();
        for frontend in wanted {
            let Vip::Claimed(range) = frontend.vip else {
                continue;
            };
            match claim(&client, &frontend.id.to_string(), range).await {
                Ok(ip) => {
                    if told.send((frontend.id, Ok(ip))).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let is_passing = error.is_passing();
                    if is_passing {
                        warn!("no address is claimed for {} yet: {error}", frontend.id);
                    }
                    let refused = (Arc::clone(&frontend.id), Err(error.to_string()));
                    if !is_passing && told.send(refused).await.is_err() {
                        return;
                    }
                    left.push(frontend);
                }
            }
        }
        if left.is_empty() {
            return;
        }
        wanted = left;
        sleep(RETRY).await;
    }
}
