//! The agent as others see it: snapshots and streams, never the agent itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use shunt_api::view::{self, ConnectionFilter, FrontendDifference, Status};
use shunt_datapath::{Connections, Counters, LiveKey, Services, TableCopies};
use shunt_model::{Frontend, FrontendKey, Override, Query};
use shunt_trace::Sockets;
use tokio::{task::spawn_blocking, time::timeout};
use tracing::info;

use crate::{
    agent_access::AgentAccess,
    borrowed::{Borrowed, Lender},
    conntrack::{ConnectionPieces, flush},
    consul_status::consul,
    dump::{frontends::frontend as named, lines::DumpLines},
    error::{Ending, InspectError},
    figures::Figures,
    frontend_list::FrontendList,
    frontends::{InspectedFrontend, key as view_of},
    listeners::{Listener, ListenerState},
    lookup::{following::Following, observed::Observed},
    monitor::{
        hub::Monitor,
        watching::{Wanted, Watching},
    },
    outcome::{Acceptance, ControlError},
    queue::EventQueue,
    read_back::{piece::Seen, reader},
    reports::Reports,
    request::{Decision, Request, Steer},
    service_counts::{self, ServiceFigures},
};

/// Longest time that followers wait for the first workloads after the first Resync: the server may not list them.
const WORKLOADS: Duration = Duration::from_secs(30);

/// Looks at a running agent. What the event loop knows goes through its queue, the connections are
/// read beside it.
#[derive(Clone)]
pub struct Inspector {
    queue: EventQueue,
    connections: Connections,
    counters: Arc<Counters>,
    services: Arc<Services>,
    copies: Arc<TableCopies>,
    monitor: Monitor,
    lender: Lender,
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl Inspector {
    /// Looks at the agent whose loop reads `queue`, whose connections these are, and whose programs
    /// count here, and here for each service port. These are copies of its tables.
    pub fn new(
        queue: EventQueue,
        connections: Connections,
        counters: Arc<Counters>,
        services: Arc<Services>,
        copies: Arc<TableCopies>,
    ) -> Self {
        Self {
            monitor: Monitor::of(queue.clone(), connections.clone(), Arc::clone(&services)),
            queue,
            connections,
            counters,
            services,
            copies,
            lender: Lender::default(),
        }
    }

    /// Returns the reports beside the queue.
    pub const fn reports(&self) -> &Arc<Reports> {
        self.queue.reports()
    }

    /// Returns the programs' counters, by name; they are read beside the event loop.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn counters(&self) -> Result<Vec<(&'static str, u64)>, InspectError> {
        let counters = self.counters.read();
        let counters = counters.map_err(|error| InspectError::Counters(error.into()))?;
        let counters = counters.into_iter();
        Ok(counters
            .map(|(counter, packets)| (counter.name(), packets))
            .collect())
    }

    /// Returns the indexes of the interfaces that have the programs; they are read beside the event loop.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn attached(&self) -> io::Result<BTreeSet<u32>> {
        self.copies.attached()
    }

    /// Returns the counts of each service port, sorted by name; they are read beside the event loop.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn services(&self) -> Result<Vec<ServiceFigures>, InspectError> {
        service_counts::read(&self.services)
    }

    /// Returns the event loop's figures of the agent.
    ///
    /// # Errors
    ///
    /// If the agent is ending.
    pub async fn figures(&self) -> Result<Figures, InspectError> {
        Ok(self.queue.ask(Request::Figures).await?)
    }

    /// The frontends in the kernel that `is_wanted` wants, with what was counted of their service ports, and those that
    /// are missing. The tables are read between events.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or the agent is ending.
    pub async fn frontends(
        &self,
        is_wanted: impl Fn(&InspectedFrontend) -> bool,
    ) -> Result<FrontendList, InspectError> {
        let seen = reader::all(&self.access(), |_, seen| wanted(seen, &is_wanted)).await?;
        self.counted(seen).await
    }

    /// The frontends in the kernel that `query` is about, and those that have its subject as a backend, by the events;
    /// `is_wanted` chooses among them. They are read by their keys.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or the agent is ending.
    pub async fn frontends_of(
        &self,
        query: Query,
        is_wanted: impl Fn(&InspectedFrontend) -> bool,
    ) -> Result<FrontendList, InspectError> {
        let keep = |_, seen| wanted(seen, &is_wanted);
        let seen = reader::asked(&self.access(), query, keep).await?;
        self.counted(seen).await
    }

    /// The list of what was seen, with what was counted of the service ports.
    async fn counted(&self, seen: BTreeMap<LiveKey, Seen>) -> Result<FrontendList, InspectError> {
        let services = Arc::clone(&self.services);
        spawn_blocking(move || FrontendList::of(seen).counted(&services)).await?
    }

    /// Notes that a large answer is being made, whose memory the system has back after it.
    pub fn borrow_memory(&self) -> Borrowed {
        self.lender.lend()
    }

    fn access(&self) -> AgentAccess {
        AgentAccess {
            queue: self.queue.clone(),
            copies: Arc::clone(&self.copies),
        }
    }

    /// The frontends that the events lead to, sorted by key; before the first Resync none. Nothing is read
    /// back from the kernel.
    ///
    /// # Errors
    ///
    /// If the agent is ending.
    pub async fn wanted(&self) -> Result<Vec<(FrontendKey, Frontend)>, Ending> {
        self.queue.ask(Request::Wanted).await
    }

    /// Returns the targets behind what is asked about, by the events; before the first Resync, there are none,
    /// and the generation is 0.
    ///
    /// # Errors
    ///
    /// If the agent is ending.
    pub async fn lookup(&self, query: Query) -> Result<Observed, Ending> {
        self.queue
            .ask(|answer| Request::Lookup(query, answer))
            .await
    }

    /// The same, now and whenever it changes. Waits for the first Resync and the first workloads, so that a follower that
    /// returns after the agent's restart gets no empty answer. What is dropped follows no longer.
    ///
    /// # Errors
    ///
    /// If the agent is ending, or has no room for a thread.
    pub async fn follow(&self, query: Query) -> Result<Following, InspectError> {
        let following = self.follow_now(query.clone()).await?;
        let reports = self.reports();
        if !reports.are_workloads_awaited() {
            return Ok(following);
        }
        if timeout(WORKLOADS, reports.workloads_known()).await.is_err() {
            reports.set_workloads_awaited(false);
        }
        self.follow_now(query).await
    }

    /// As [`follow`](Self::follow), with the first workloads known or not.
    async fn follow_now(&self, query: Query) -> Result<Following, InspectError> {
        let asked = self.queue.ask(|answer| Request::Follow(query, answer));
        let mut following = asked.await?.map_err(InspectError::Follow)?;
        following.begin().await?;
        Ok(following)
    }

    /// Waits for the first Resync.
    ///
    /// # Errors
    ///
    /// If the agent is ending, or has no room for a thread.
    pub async fn has_begun(&self) -> Result<(), InspectError> {
        let anybody = Query::address(Ipv4Addr::UNSPECIFIED.into(), None, None);
        self.follow_now(anybody).await.map(drop)
    }

    /// Returns the agent's status. If it is brief, the tables are not read: it has no differences, and no number of
    /// frontends that are not translated.
    ///
    /// # Errors
    ///
    /// If the tables or the counters cannot be read, or the agent is ending.
    pub async fn status(&self, is_brief: bool) -> Result<Status, InspectError> {
        let status = self.queue.ask(Request::Status).await??;
        let mut untranslated = BTreeSet::new();
        let mut differences = BTreeMap::new();
        if !is_brief {
            let _memory = self.borrow_memory();
            let access = self.access();
            let read = reader::all(&access, |key, seen| {
                match seen {
                    Seen::Untranslated => drop(untranslated.insert(key)),
                    _ => drop(untranslated.remove(&key)),
                }
                seen.difference()
            });
            differences = read.await?;
        }
        // Before the first Resync no event leads to what the tables have.
        if !status.synced {
            differences.clear();
        }
        let listeners = self.reports().listeners();
        let listeners = listeners.borrow();
        let differences = differences.into_iter();
        Ok(Status {
            untranslated: untranslated.len() as u64,
            differences: differences
                .map(|(key, difference)| FrontendDifference {
                    frontend: view_of(key),
                    difference,
                })
                .collect(),
            listeners: listeners.iter().map(listener).collect(),
            take_over: self.reports().take_over(),
            local_api: self.reports().local(),
            consul: self.reports().consul().map(consul),
            host: self.reports().host(),
            socket_recreated: self.reports().socket_recreated(),
            monitor: self.reports().meters().flows.shown(),
            ..status
        })
    }

    /// All that a packet's way depends on, line by line, read when it is asked for.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or the agent is ending.
    pub async fn dump(&self) -> Result<DumpLines, InspectError> {
        let status = self.queue.ask(Request::Status).await??;
        let sockets = Sockets {
            mode: status.socket_lb.mode.name().to_owned(),
            hooks: status.socket_lb.hooks,
        };
        let memory = self.borrow_memory();
        let access = self.access();
        let frontends = reader::all(&access, |_, seen| match seen {
            Seen::There(frontend) => named(&frontend),
            Seen::Missing | Seen::Untranslated | Seen::Nothing => None,
        });
        let frontends = frontends.await?.into_values().collect();
        DumpLines::begin(Arc::clone(&self.copies), frontends, sockets, memory).await
    }

    /// Forgets the connections that are meant. Returns their number.
    ///
    /// # Errors
    ///
    /// If the kernel's clock cannot be read.
    pub async fn flush(&self, filter: ConnectionFilter) -> Result<u64, InspectError> {
        let flushed = flush(&self.connections, filter).await?;
        info!("{flushed} connections were forgotten, as an operator has asked for");
        Ok(flushed)
    }

    /// Makes a change of endpoints hold, until then if a time is given.
    ///
    /// # Errors
    ///
    /// If it leads to something that cannot be, or the agent is ending.
    pub async fn set_override(
        &self,
        change: Override,
        until: Option<SystemTime>,
    ) -> Result<Result<Acceptance, ControlError>, Ending> {
        let steer = Steer::Set(change, until);
        self.queue.ask(|answer| Request::Steer(steer, answer)).await
    }

    /// Takes back the change of endpoints that has the target of this one.
    ///
    /// # Errors
    ///
    /// If there is none, or the agent is ending.
    pub async fn remove_override(
        &self,
        change: Override,
    ) -> Result<Result<Acceptance, ControlError>, Ending> {
        let steer = Steer::Remove(change);
        self.queue.ask(|answer| Request::Steer(steer, answer)).await
    }

    /// Decides whether the event takes effect that would remove too many frontends.
    ///
    /// # Errors
    ///
    /// If none waits, or the agent is ending.
    pub async fn decide_removal(
        &self,
        number: u64,
        decision: Decision,
    ) -> Result<Result<Acceptance, ControlError>, Ending> {
        self.queue
            .ask(|answer| Request::Decide(number, decision, answer))
            .await
    }

    /// Begins to watch connections and packets: what happens from the answer on is reported.
    ///
    /// # Errors
    ///
    /// If the kernel does not take the programs that report it, or the agent is ending.
    pub async fn watch_flows(&self, wanted: Wanted) -> Result<Watching, InspectError> {
        self.monitor.watch(wanted).await
    }

    /// The connections that are meant, read when they are asked for.
    pub fn connections(&self, filter: ConnectionFilter) -> ConnectionPieces {
        ConnectionPieces::of(&self.connections, filter)
    }
}

/// Returns what was seen, unless it is a frontend that is not wanted, or nothing.
fn wanted(seen: Seen, is_wanted: &impl Fn(&InspectedFrontend) -> bool) -> Option<Seen> {
    match &seen {
        Seen::There(frontend) => is_wanted(frontend).then_some(seen),
        Seen::Missing => Some(seen),
        Seen::Untranslated | Seen::Nothing => None,
    }
}

fn listener((listener, state): (&Listener, &ListenerState)) -> view::Listener {
    let ListenerState { address, problem } = state;
    view::Listener {
        name: listener.to_string(),
        address: address.clone(),
        problem: problem.clone(),
    }
}
