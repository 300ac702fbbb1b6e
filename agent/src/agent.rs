//! The agent: each event is planned, published, and only then known.

use std::{
    collections::BTreeSet,
    fmt,
    time::{Duration, Instant},
};

use thiserror::Error;

use shunt_datapath::{Datapath, TableError};
use shunt_model::{Changes, Conflict, Origin, Plan, RenderError, Renderer, RendererEvent};

pub(crate) mod inspection;

pub use self::inspection::{
    AgentStatus, Difference, FrontendList, InspectError, InspectedFrontend,
};

/// The renderer and the datapath that it drives.
pub struct Agent {
    renderer: Renderer,
    datapath: Datapath,
    /// Interfaces from the command line, besides those of the events.
    interfaces: BTreeSet<String>,
}

/// What an event has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Frontends that did not exist.
    pub added: usize,
    /// Frontends that became something else.
    pub changed: usize,
    /// Frontends that ceased to exist.
    pub removed: usize,
    /// Frontends of this event that are not in the kernel, because their address family is not
    /// translated.
    pub untranslated: usize,
    /// Writes to the kernel's tables.
    pub writes: u64,
    /// Services of this event that wait for a frontend which another one has.
    pub conflicts: Vec<Conflict>,
    /// From the event's arrival here to the end of its last write.
    pub took: Duration,
}

impl fmt::Display for Outcome {
    /// The counts, the time and the writes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            added,
            changed,
            removed,
            untranslated: _,
            writes,
            conflicts: _,
            took,
        } = self;
        let took = took.as_micros();
        write!(
            f,
            "{added} added, {changed} changed, {removed} removed, {took} us, {writes} writes"
        )
    }
}

/// Why an event had no effect.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// It cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The tables did not take what it leads to.
    #[error(transparent)]
    Tables(#[from] TableError),
}

impl Agent {
    /// Drives `datapath` by `renderer`, with the programs on `interfaces` besides those that the
    /// events name. What an earlier agent left attached gets our programs at once, and stays
    /// until the first Resync says whether it is wanted.
    pub fn new(renderer: Renderer, mut datapath: Datapath, interfaces: BTreeSet<String>) -> Self {
        datapath.adopt_interfaces();
        let mut agent = Self {
            renderer,
            datapath,
            interfaces,
        };
        agent.reconcile_interfaces();
        agent
    }

    /// Applies an event, whole or not at all. Before the first Resync every other event is held:
    /// `None`.
    ///
    /// # Errors
    ///
    /// The event cannot be rendered or does not fit into the tables; it had no effect then.
    pub fn apply(
        &mut self,
        origin: impl Into<Origin>,
        event: RendererEvent,
    ) -> Result<Option<Outcome>, ApplyError> {
        let start = Instant::now();
        let Some(event) = self.renderer.admit(origin, event) else {
            return Ok(None);
        };
        let plan = self.renderer.plan(event)?;
        let writes = match &plan.snapshot {
            Some(snapshot) => self.datapath.resync(snapshot)?,
            None => self.datapath.publish(&plan.changes)?,
        };
        let writes = writes
            + match plan.nodes() {
                Some(nodes) => self.datapath.set_node_ips(nodes.own()),
                None => 0,
            };
        let mut outcome = Outcome {
            added: plan.changes.added.len(),
            changed: plan.changes.changed.len(),
            removed: plan.changes.removed.len(),
            untranslated: self.untranslated(&plan),
            writes,
            conflicts: plan.conflicts.clone(),
            took: Duration::ZERO,
        };
        let interfaces_changed =
            plan.frontend_ifs.is_some() || plan.backend_ifs.is_some() || plan.snapshot.is_some();
        self.renderer.commit(plan);
        if interfaces_changed {
            self.reconcile_interfaces();
        }
        outcome.took = start.elapsed();
        Ok(Some(outcome))
    }

    /// How many of the frontends that are to be after the event are not translated.
    fn untranslated(&self, plan: &Plan) -> usize {
        let Changes { added, changed, .. } = &plan.changes;
        let frontends = match &plan.snapshot {
            Some(snapshot) => [snapshot.as_slice(), &[]],
            None => [added.as_slice(), changed],
        };
        let keys = frontends.into_iter().flatten().map(|(key, _)| key);
        keys.filter(|key| !self.datapath.translates(key)).count()
    }

    /// The events that were held until the Resync that was just applied, with their origins.
    pub fn take_held(&mut self) -> Vec<(Origin, RendererEvent)> {
        self.renderer.take_held()
    }

    /// Brings the programs onto every wanted interface that exists; to be called whenever
    /// interfaces change.
    pub fn reconcile_interfaces(&mut self) {
        let mut wanted = self.renderer.frontend_ifs() | &self.interfaces;
        if self.datapath.redirects() {
            wanted.extend(self.renderer.backend_ifs().iter().cloned());
        }
        let synced = self.renderer.is_synced();
        self.datapath.reconcile_interfaces(&wanted, synced);
    }

    /// The datapath.
    pub const fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// The datapath, to [reclaim](Datapath::reclaim) when there is time.
    pub const fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.datapath
    }
}
