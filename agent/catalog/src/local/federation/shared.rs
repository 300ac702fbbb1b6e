//! The records of all datacenters, shared by the tasks that read and those that copy.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{Semaphore, watch},
    task::spawn_blocking,
    time::timeout,
};
use tracing::{info, warn};

use crate::{
    instances::{
        instance::Instance,
        query::{Query, QueryKind},
        tier::{Datacenter, GATEWAYS},
    },
    local::{
        federation::{
            locator::{Replication, ways_to_primary},
            options::{FederationError, FederationOptions},
            pace::random,
            record::Gateway,
            states::{Remote, States},
            token::{TokenError, Tokens},
        },
        registrar::NoPlace,
        store::Store,
    },
};

/// Number of readers that may wait for news at once.
const READERS: usize = 1024;

/// The records of all datacenters. A copy of this is another way to the same.
#[derive(Debug, Clone)]
pub struct Federation(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: FederationOptions,
    tokens: Tokens,
    states: watch::Sender<Arc<States>>,
    /// One change at a time: it is written before anybody sees it.
    store: tokio::sync::Mutex<Arc<Store>>,
    readers: Semaphore,
    contact: Mutex<Contact>,
    failures: AtomicU64,
}

/// State of the copying.
#[derive(Debug, Clone)]
pub(crate) struct Contact {
    pub(crate) replication: Replication,
    /// Since when it is as it is.
    pub(crate) since: SystemTime,
    /// Present failure, in words.
    pub(crate) trouble: Option<String>,
}

impl Federation {
    /// Reads what was kept, and the tokens.
    ///
    /// # Errors
    ///
    /// Either cannot be read, or a secondary has no token.
    pub fn open(options: FederationOptions) -> Result<Self, FederationError> {
        let tokens = Tokens::read(&options.token_file)?;
        let own = options.datacenter.as_str();
        let is_primary = own == options.primary && !options.only_reads;
        if !is_primary && tokens.get(own).is_none() {
            return Err(FederationError::Token(TokenError::Missing {
                path: options.token_file.clone(),
                datacenter: own.to_owned(),
            }));
        }
        let (store, kept) = Store::take(&options.state)?;
        let states: States = match kept {
            None => States::default(),
            Some(text) => {
                serde_json::from_slice(&text).map_err(|source| FederationError::Damaged {
                    path: options.state.clone(),
                    source,
                })?
            }
        };
        let contact = Contact {
            replication: Replication::Never,
            since: SystemTime::now(),
            trouble: None,
        };
        Ok(Self(Arc::new(Shared {
            options,
            tokens,
            states: watch::Sender::new(Arc::new(states)),
            store: tokio::sync::Mutex::new(Arc::new(store)),
            readers: Semaphore::new(READERS),
            contact: Mutex::new(contact),
            failures: AtomicU64::new(0),
        })))
    }

    /// Returns the options of this agent's part.
    pub(crate) fn options(&self) -> &FederationOptions {
        &self.0.options
    }

    /// Returns whether this agent keeps the records of all.
    pub fn is_primary(&self) -> bool {
        let options = self.options();
        options.datacenter == options.primary && !options.only_reads
    }

    /// The tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.0.tokens
    }

    /// All records as they are now.
    pub(crate) fn states(&self) -> Arc<States> {
        Arc::clone(&self.0.states.borrow())
    }

    /// Returns a receiver of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<States>> {
        self.0.states.subscribe()
    }

    /// All records, as soon as what `index_of` finds in them is above `index`, or after `wait`.
    ///
    /// # Errors
    ///
    /// Too many wait.
    pub async fn newer(
        &self,
        index: u64,
        wait: Duration,
        index_of: impl Fn(&States) -> u64,
    ) -> Result<Arc<States>, NoPlace> {
        let mut changes = self.changes();
        if index > 0 && index_of(&changes.borrow_and_update()) <= index {
            let _place = self.0.readers.try_acquire().map_err(|_| NoPlace)?;
            let waiting = changes.wait_for(|states| index_of(states) > index);
            // The end of the wait is an answer, too.
            drop(timeout(wait, waiting).await);
        }
        Ok(self.states())
    }

    /// A datacenter has these gateways.
    ///
    /// # Errors
    ///
    /// It cannot be kept, and has no effect.
    pub async fn put(&self, datacenter: &str, gateways: Vec<Gateway>) -> Result<(), String> {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let count = gateways.len();
        let is_new = self
            .change(|states| states.put(datacenter, gateways, now))
            .await?;
        if is_new {
            info!("datacenter {datacenter} has {count} gateways");
        }
        Ok(())
    }

    /// The primary shows this.
    pub(super) async fn copied(&self, remote: Remote) -> Result<(), String> {
        let is_new = self.change(|states| states.follow(remote)).await?;
        if is_new {
            let states = self.states();
            info!(
                "the primary has gateways of {} datacenters",
                states.records.len()
            );
        }
        self.works();
        Ok(())
    }

    /// Notes that the records here are those of the primary.
    pub(super) fn works(&self) {
        let mut contact = self.contact_mut();
        let is_back = contact.trouble.take().is_some();
        if is_back {
            info!("the federation is up to date again");
        }
        if is_back || contact.replication == Replication::Never {
            contact.since = SystemTime::now();
        }
        contact.replication = Replication::worked();
    }

    /// Copying failed once more.
    pub(super) fn failed(&self, trouble: &str) {
        self.0.failures.fetch_add(1, Ordering::Relaxed);
        let mut contact = self.contact_mut();
        contact.replication = contact.replication.failed();
        if contact.trouble.is_none() {
            contact.since = SystemTime::now();
            warn!("the federation is not up to date: {trouble}");
        }
        contact.trouble = Some(trouble.to_owned());
    }

    /// Returns the state of the copying.
    pub(crate) fn contact(&self) -> Contact {
        self.contact_mut().clone()
    }

    /// Returns the number of failures of the copying.
    pub(crate) fn failures(&self) -> u64 {
        self.0.failures.load(Ordering::Relaxed)
    }

    /// One of the addresses that lead to the primary.
    pub(super) fn way(&self) -> Result<String, String> {
        let FederationOptions {
            datacenter,
            primary,
            gateways,
            ..
        } = self.options();
        let replication = self.contact_mut().replication;
        let states = self.states();
        let mut ways = ways_to_primary(&states, datacenter, primary, gateways, replication);
        if ways.is_empty() {
            return Err(
                "no address leads to the primary: give --federation-gateway one".to_owned(),
            );
        }
        let chosen = random() % ways.len() as u64;
        Ok(ways.swap_remove(chosen as usize))
    }

    /// The instances of a query that are known from other datacenters: gateways alone.
    pub(crate) fn instances(&self, query: &Query) -> Vec<Instance> {
        let states = self.states();
        let own = self.options().datacenter.as_str();
        match (query.kind, &query.datacenter) {
            (QueryKind::MeshGateways, _) => {
                let others = states.records.values();
                let others = others.filter(|record| record.datacenter != own);
                let all = others.flat_map(|record| {
                    let gateways = record.mesh_gateways.iter();
                    gateways.map(|gateway| gateway.instance(&record.datacenter))
                });
                all.collect()
            }
            (_, Datacenter::Other(name)) if &*query.service == GATEWAYS => {
                let gateways = states.gateways(name).iter();
                gateways.map(|gateway| gateway.instance(name)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn change(&self, change: impl FnOnce(&mut States) -> bool) -> Result<bool, String> {
        let store = self.0.store.lock().await;
        let mut next = (*self.states()).clone();
        let is_new = change(&mut next);
        if is_new {
            let content = serde_json::to_vec(&next).map_err(|error| error.to_string())?;
            let store = Arc::clone(&store);
            let written = spawn_blocking(move || store.write(&content)).await;
            written
                .map_err(|error| error.to_string())?
                .map_err(|error| error.to_string())?;
        }
        // A change of `seen` alone is no news, and wakes no reader.
        self.0.states.send_if_modified(|states| {
            *states = Arc::new(next);
            is_new
        });
        Ok(is_new)
    }

    fn contact_mut(&self) -> MutexGuard<'_, Contact> {
        let contact = &self.0.contact;
        contact.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
