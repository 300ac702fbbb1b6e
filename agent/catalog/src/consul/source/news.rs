//! Processing of the queries' news.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use shunt_runtime::{ConsulMonitor, ConsulState, Contact, Reports, StaleWatch};
use tracing::{info, warn};

use crate::{
    consul::{
        http::error::AskError,
        watch::told::{News, Reason, Told, Topic, Trouble},
    },
    instances::{
        engine::Engine,
        instance::Instance,
        query::{Query, QueryKind},
        settle::settling,
        tier::Datacenter,
    },
};

/// The source's name in reports.
const SOURCE: &str = "consul";

/// Prefix of the names of the sources of hints for services.
const HINTS: &str = "(hints for all services";

/// Displayed name of the query of mesh gateways.
const MESH_GATEWAYS: &str = "(mesh gateways)";

/// Processor of the queries' news.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) monitor: ConsulMonitor,
    pub(super) reports: Arc<Reports>,
    /// Time that removals wait after the agent was out of reach.
    settle: Duration,
    /// The queries whose removals wait, with the deadline and the newest answer.
    settling: HashMap<Arc<Query>, Settling>,
    /// The instances that cannot be read.
    pub(super) unreadable: HashMap<Arc<Query>, Vec<String>>,
    /// Time since which a change waits that was not refused.
    pub(super) late_since: Option<Instant>,
}

/// The removals of a query that wait.
#[derive(Debug)]
struct Settling {
    /// Time at which they are believed; `None`: the query is not up to date, and its time begins anew when it is.
    until: Option<Instant>,
    newest: Vec<Instance>,
}

impl Listener {
    pub(super) fn new(monitor: ConsulMonitor, reports: Arc<Reports>, settle: Duration) -> Self {
        let listener = Self {
            monitor,
            reports,
            settle,
            settling: HashMap::new(),
            unreadable: HashMap::new(),
            late_since: None,
        };
        listener.show_contact();
        listener
    }

    /// Notes that Consul does not return our identity.
    pub(super) fn unknown(&self, error: &AskError) {
        self.monitor.update(|state| {
            let identity = "(who we are)".to_owned();
            let known = state.stale.entry(identity);
            let stale = known.or_insert_with(|| StaleWatch {
                since: SystemTime::now(),
                reason: String::new(),
            });
            let reason = error.to_string();
            if stale.reason != reason {
                warn!("Consul does not say who we are: {reason}");
                stale.reason = reason;
            }
            *state.failures.entry(error.name()).or_default() += 1;
            if error.code() == Some(403) {
                let right = "agent:read on this node, or --consul-node".to_owned();
                state.missing_rights.insert(right);
            }
        });
        self.show_contact();
    }

    /// Notes that Consul has returned our identity.
    pub(super) fn is_known(&self) {
        self.monitor.update(|state| {
            state.stale.clear();
            state.missing_rights.clear();
        });
        self.show_contact();
    }

    /// Takes note of this, and passes its consequences to the engine.
    pub(super) fn take(&mut self, engine: &mut Engine, told: Told, now: Instant) {
        let Told { topic, news } = told;
        let name = named(&topic);
        let query = match topic {
            Topic::Instances(query) if !engine.wants(&query) => {
                // It was on its way when the query was no longer wanted.
                return;
            }
            Topic::Instances(query) => Some(query),
            Topic::Hints(of) if !engine.queries().any(|query| query.datacenter == of) => return,
            Topic::Hints(_)
            | Topic::Resolver(_)
            | Topic::Resolvers
            | Topic::Leader
            | Topic::Datacenters
            | Topic::Exports => None,
        };
        match (news, query) {
            (
                News::Instances {
                    instances,
                    unreadable,
                    is_back,
                    hidden,
                },
                Some(query),
            ) => {
                match hidden {
                    Some(trouble) => self.stale(name, &trouble),
                    None => self.up_to_date(&name),
                }
                self.monitor.update(|state| {
                    state.answers += 1;
                    state.last_change = Some(SystemTime::now());
                });
                if unreadable.is_empty() {
                    self.unreadable.remove(&query);
                } else {
                    self.unreadable.insert(Arc::clone(&query), unreadable);
                }
                let instances = self.settled(engine, &query, instances, is_back, now);
                engine.set_instances(&query, instances);
            }
            (News::Instances { .. } | News::UpToDate, query) => {
                self.up_to_date(&name);
                if let Some(settling) = query.and_then(|query| self.settling.get_mut(&query)) {
                    settling.until.get_or_insert(now + self.settle);
                }
            }
            (News::Stale(trouble), query) => {
                let settling = query
                    .as_ref()
                    .and_then(|query| self.settling.get_mut(query));
                if let Some(settling) = settling {
                    settling.until = None;
                }
                if let (Reason::Denied(_), Some(query)) = (&trouble.reason, &query) {
                    engine.deny(query);
                }
                self.stale(name, &trouble);
            }
        }
        self.show_contact();
    }

    /// These queries are followed from now on. What is known of others is forgotten.
    pub(super) fn wanted(&mut self, queries: &BTreeSet<Query>) {
        let is_wanted = |query: &Arc<Query>| queries.contains(&**query);
        self.settling.retain(|query, _| is_wanted(query));
        self.unreadable.retain(|query, _| is_wanted(query));
        let hints = queries
            .iter()
            .map(|query| Topic::Hints(query.datacenter.clone()));
        let hints = hints.map(|topic| named(&topic));
        let names: BTreeSet<String> = queries.iter().map(shown).chain(hints).collect();
        let is_of_queries =
            |name: &str| name.starts_with(HINTS) || name == MESH_GATEWAYS || !name.starts_with('(');
        self.monitor.update(|state| {
            state.watches = queries.len() as u64;
            state
                .stale
                .retain(|name, _| !is_of_queries(name) || names.contains(name));
            state.missing_rights.retain(|right| {
                let of = right.split_once(": ").map(|(name, _)| name);
                of.is_none_or(|name| names.contains(name))
            });
        });
        self.show_contact();
    }

    /// Returns the time at which removals that wait are due.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        let settling = self.settling.values();
        settling.filter_map(|settling| settling.until).min()
    }

    /// Believes the last answers, where the time for doubts is over.
    pub(super) fn settle(&mut self, engine: &mut Engine, now: Instant) {
        let due = self
            .settling
            .extract_if(|_, settling| settling.until.is_some_and(|until| until <= now));
        for (query, Settling { newest, .. }) in due.collect::<Vec<_>>() {
            engine.set_instances(&query, newest);
        }
    }

    /// Returns the part of an answer that counts at once.
    fn settled(
        &mut self,
        engine: &Engine,
        query: &Arc<Query>,
        instances: Vec<Instance>,
        is_back: bool,
        now: Instant,
    ) -> Vec<Instance> {
        // Where nothing is known there is nothing to doubt.
        let Some(known) = engine.instances(query) else {
            return instances;
        };
        let until = Some(now + self.settle);
        if is_back && !self.settle.is_zero() {
            let newest = instances.clone();
            let waiting = Settling { until, newest };
            self.settling.insert(Arc::clone(query), waiting);
        } else if let Some(waiting) = self.settling.get_mut(query) {
            waiting.until = waiting.until.or(until);
            waiting.newest.clone_from(&instances);
        } else {
            return instances;
        }
        settling(known, instances)
    }

    /// Returns the sizes of the records of removals that wait, and of instances that cannot be read.
    #[cfg(test)]
    pub(super) fn size(&self) -> [usize; 2] {
        let settling = self.settling.values().map(|it| it.newest.len());
        let unreadable = self.unreadable.values().map(Vec::len);
        [settling.sum(), unreadable.sum()]
    }

    fn up_to_date(&self, name: &str) {
        self.monitor.update(|state| {
            if state.stale.remove(name).is_some() {
                info!("{name} is up to date again");
            }
            forget_rights(state, name);
        });
    }

    fn stale(&self, name: String, trouble: &Trouble) {
        let Trouble { since, reason } = trouble;
        let (text, kind) = match reason {
            Reason::Failed(error) => (error.to_string(), error.name()),
            Reason::Denied(missing) => (format!("the token lacks {missing}"), "denied"),
            Reason::NoLeader => ("its server knows no leader".to_owned(), "no_leader"),
        };
        self.monitor.update(|state| {
            *state.failures.entry(kind).or_default() += 1;
            if let Reason::Denied(missing) = reason {
                // They may be of other nodes than before.
                forget_rights(state, &name);
                state.missing_rights.insert(format!("{name}: {missing}"));
            }
            let stale = StaleWatch {
                since: *since,
                reason: text,
            };
            let before = state.stale.get(&name);
            // One agent that is away is one line and not one of each service.
            let is_said = state
                .stale
                .values()
                .any(|known| known.reason == stale.reason);
            if before.is_none() && !is_said {
                warn!("{name} is not up to date: {}", stale.reason);
            }
            state.stale.insert(name, stale);
        });
    }

    /// Shows whether Consul is heard.
    fn show_contact(&self) {
        let contact = self.monitor.update(|state| {
            let oldest = state.stale.values().map(|stale| stale.since).min();
            let problem = state.stale.iter().next();
            let more = state.stale.len().saturating_sub(1);
            Contact {
                connected: state.stale.is_empty() && state.node.is_some(),
                since: oldest.or(state.last_change).unwrap_or_else(SystemTime::now),
                problem: problem.map(|(name, stale)| {
                    let more = if more > 0 {
                        format!(", and {more} more")
                    } else {
                        String::new()
                    };
                    format!("{name}: {}{more}", stale.reason)
                }),
            }
        });
        self.reports.set_source(SOURCE, contact);
    }
}

/// Forgets the rights that were missing for this.
fn forget_rights(state: &mut ConsulState, name: &str) {
    let lacks = format!("{name}: ");
    let rights = &mut state.missing_rights;
    rights.retain(|right| !right.starts_with(&lacks));
}

/// Returns the displayed name of a topic.
fn named(topic: &Topic) -> String {
    match topic {
        Topic::Instances(query) => shown(query),
        Topic::Hints(Datacenter::Own) => format!("{HINTS})"),
        Topic::Hints(Datacenter::Other(name)) => format!("{HINTS} of {name})"),
        Topic::Resolver(service) => format!("(resolver of {service})"),
        Topic::Resolvers => "(hints for all resolvers)".to_owned(),
        Topic::Leader => "(leader)".to_owned(),
        Topic::Datacenters => "(datacenters)".to_owned(),
        Topic::Exports => "(gateways that are offered)".to_owned(),
    }
}

/// Returns the displayed name of a query.
pub(super) fn shown(query: &Query) -> String {
    let Query {
        service,
        kind,
        datacenter,
        filter,
    } = query;
    let mut text = match kind {
        QueryKind::Service => service.to_string(),
        QueryKind::Connect => format!("{service} (connect)"),
        QueryKind::MeshGateways => MESH_GATEWAYS.to_owned(),
    };
    if let Datacenter::Other(name) = datacenter {
        text.push_str(&format!(" in {name}"));
    }
    if let Some(filter) = filter {
        text.push_str(&format!(" where {filter}"));
    }
    text
}
