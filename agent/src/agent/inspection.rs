//! What the agent shows of itself and of the kernel.

use std::collections::HashSet;

use aya::maps::MapError;
use shunt_common::Counter;
use thiserror::Error;

use shunt_datapath::{InterfaceState, LiveFrontend, LiveKey, TableError, TableUse};
use shunt_model::{Conflict, Frontend, FrontendKey, NodeAddresses, Renderer};

use crate::agent::Agent;

/// How a frontend in the kernel relates to the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// It is there, but not as the events lead to.
    Changed,
    /// No event leads to it.
    Unknown,
    /// Events lead to it, but it is not there.
    Missing,
}

/// A frontend in the kernel, and what the events lead to at its key.
#[derive(Debug, Clone)]
pub struct InspectedFrontend {
    /// What is there.
    pub live: LiveFrontend,
    /// What is to be there.
    pub wanted: Option<Frontend>,
}

impl InspectedFrontend {
    /// What is wrong with it, if anything is.
    pub fn difference(&self) -> Option<Difference> {
        match &self.wanted {
            None => Some(Difference::Unknown),
            Some(wanted) if !self.live.is(wanted) => Some(Difference::Changed),
            Some(_) => None,
        }
    }
}

/// The frontends in the kernel beside those that the events lead to.
#[derive(Debug, Clone)]
pub struct FrontendList {
    /// Those in the kernel, sorted.
    pub frontends: Vec<InspectedFrontend>,
    /// Those that are not there, although they should be, sorted.
    pub missing: Vec<FrontendKey>,
    /// How many are not there because the tables cannot hold them.
    pub untranslated: usize,
}

/// How the agent is, as far as renderer and datapath know.
#[derive(Debug, Clone)]
pub struct AgentStatus {
    /// Whether a Resync was applied.
    pub synced: bool,
    /// Events that are held until one is.
    pub held: usize,
    /// The nodes' addresses.
    pub nodes: NodeAddresses,
    /// Every interface that is to have the programs, by name.
    pub interfaces: Vec<(String, InterfaceState)>,
    /// Services that wait for a frontend which another one has.
    pub conflicts: Vec<Conflict>,
    /// The frontends where kernel and events disagree, sorted; none before the first Resync.
    pub differences: Vec<(LiveKey, Difference)>,
    /// How many frontends are not in the kernel because the tables cannot hold them.
    pub untranslated: usize,
    /// How full the tables are.
    pub tables: Vec<TableUse>,
    /// What the programs counted.
    pub counters: Vec<(Counter, u64)>,
}

/// The kernel refused to say how things are.
#[derive(Debug, Error)]
pub enum InspectError {
    /// A table.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The counters.
    #[error("reading the counters failed: {0}")]
    Counters(#[from] MapError),
}

impl Agent {
    /// The frontends in the kernel.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    pub fn frontends(&self) -> Result<FrontendList, InspectError> {
        let live = self.datapath.live()?;
        let translates = |key: &FrontendKey| self.datapath.translates(key);
        Ok(compare(live, &self.renderer, translates))
    }

    /// How the agent is.
    ///
    /// # Errors
    ///
    /// If the tables or the counters cannot be read.
    pub fn status(&self) -> Result<AgentStatus, InspectError> {
        let renderer = &self.renderer;
        let list = self.frontends()?;
        let untranslated = list.untranslated;
        let interfaces = self.datapath.interfaces();
        Ok(AgentStatus {
            synced: renderer.is_synced(),
            held: renderer.held(),
            nodes: renderer.nodes().clone(),
            interfaces: interfaces
                .map(|(name, state)| (name.to_owned(), state))
                .collect(),
            conflicts: renderer.conflicts().collect(),
            differences: if renderer.is_synced() {
                list.into_differences()
            } else {
                Vec::new()
            },
            untranslated,
            tables: self.datapath.table_use(),
            counters: self.datapath.counters().read()?,
        })
    }
}

impl FrontendList {
    fn into_differences(self) -> Vec<(LiveKey, Difference)> {
        let Self {
            frontends,
            missing,
            untranslated: _,
        } = self;
        let there = frontends
            .iter()
            .filter_map(|frontend| Some((frontend.live.key, frontend.difference()?)));
        let missing = missing
            .iter()
            .map(|key| (LiveKey::from(*key), Difference::Missing));
        let mut differences: Vec<_> = there.chain(missing).collect();
        differences.sort_by_key(|(key, _)| key.order());
        differences
    }
}

/// What is there beside what is to be there.
fn compare(
    live: Vec<LiveFrontend>,
    renderer: &Renderer,
    translates: impl Fn(&FrontendKey) -> bool,
) -> FrontendList {
    let there: HashSet<FrontendKey> = live
        .iter()
        .filter_map(|frontend| frontend.key.frontend())
        .collect();
    let absent = renderer
        .frontends()
        .map(|(key, _)| key)
        .filter(|key| !there.contains(key));
    let (missing, untranslated): (Vec<_>, Vec<_>) = absent.partition(translates);
    let inspected = live.into_iter().map(|live| InspectedFrontend {
        wanted: live
            .key
            .frontend()
            .and_then(|key| renderer.frontend(key).cloned()),
        live,
    });
    FrontendList {
        frontends: inspected.collect(),
        missing,
        untranslated: untranslated.len(),
    }
}
