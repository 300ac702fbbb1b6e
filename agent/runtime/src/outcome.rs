//! Outcome of an event.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    time::Duration,
};

use shunt_datapath::TableError;
use shunt_model::{Conflict, EventError, RenderError, ServiceId};
use thiserror::Error;

use crate::{removal::Removal, steering::SteeringError, table_flags::with_advice};

/// Changes that an event has made.
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
    /// Node addresses of this event, and not of the one before, that cannot be used.
    pub left_out: BTreeSet<IpAddr>,
    /// Services that do not fit into the tables, and why: those of a Resync, which took effect as if it did not have
    /// them, and those that gave way to the service or to the node addresses of another event.
    pub refused: BTreeMap<ServiceId, String>,
    /// From the event's arrival at the agent to the end of its last write.
    pub took: Duration,
}

impl Outcome {
    /// A sentence for each service that does not fit.
    pub fn refusals(&self) -> impl Iterator<Item = String> {
        self.refused.iter().map(|(service, reason)| {
            format!("service {service} does not fit and is left out: {reason}")
        })
    }

    /// Returns whether anything became of it.
    pub const fn has_changed(&self) -> bool {
        self.added + self.changed + self.removed > 0 || self.writes > 0
    }
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
            left_out: _,
            refused: _,
            took,
        } = self;
        let took = took.as_micros();
        write!(
            f,
            "{added} added, {changed} changed, {removed} removed, {took} us, {writes} writes"
        )
    }
}

/// Manner in which an event was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// It took effect.
    Applied(Outcome),
    /// It takes effect after the first Resync.
    Held,
}

/// Consequences that the source of an event has to know.
#[derive(Debug, Default)]
pub struct Consequences {
    /// Conflicts that there are now.
    pub conflicts: Vec<Conflict>,
    /// The services without which it took effect, and why.
    pub refused: BTreeMap<ServiceId, String>,
    /// True if it changed or removed frontends, so that others may find room now.
    pub may_have_made_room: bool,
}

/// Why a source's event had no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, a phrase.
    pub reason: String,
    /// True if a table is too small for it.
    pub wants_room: bool,
}

/// Fate of a source's event: what follows from it, or why it had no effect.
pub type Fate = Result<Consequences, Refusal>;

/// Returns what a source has to know of the answer to its event.
///
/// # Errors
///
/// The reason, if the event had no effect.
pub fn fate(answer: Result<Acceptance, ApplyError>) -> Fate {
    match answer {
        Ok(acceptance) => Ok(acceptance.into()),
        Err(error) => Err(Refusal {
            reason: error.to_string(),
            wants_room: error.is_for_want_of_room(),
        }),
    }
}

impl From<Acceptance> for Consequences {
    fn from(acceptance: Acceptance) -> Self {
        match acceptance {
            Acceptance::Applied(outcome) => Self {
                may_have_made_room: outcome.changed + outcome.removed > 0,
                conflicts: outcome.conflicts,
                refused: outcome.refused,
            },
            Acceptance::Held => Self::default(),
        }
    }
}

/// Why an event had no effect.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// It is wrong by itself.
    #[error(transparent)]
    Event(#[from] EventError),
    /// It cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The tables did not take what it leads to.
    #[error("{}", with_advice(.0))]
    Tables(#[from] TableError),
    /// It would remove more frontends than an event may, and waits for a decision.
    #[error(
        "it would remove {} of {} frontends, more than --max-removal lets it: it waits for a decision",
        .0.removed, .0.frontends
    )]
    Removal(Removal),
    /// It is a client's Resync, and this source has the last word.
    #[error(
        "the agent is {0}, which would not bring back what this Resync removes: `shunt apply --over-source`, or \
         `over_source` in the call, applies it all the same"
    )]
    Foreign(String),
    /// It waited for a decision, and this was against it.
    #[error("it was discarded: it would have removed too many frontends")]
    Discarded,
    /// It waited for a decision, or behind an event that did, and a Resync has come.
    #[error("a Resync has come in its place while it waited for a decision")]
    Replaced,
}

impl ApplyError {
    /// Returns whether a table is too small for the event, and not the kernel that refused a call.
    pub const fn is_for_want_of_room(&self) -> bool {
        matches!(
            self,
            Self::Tables(TableError::Full { .. } | TableError::TooManyBackends { .. })
        )
    }
}

/// Why what an operator has asked for is not done.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nothing of this target is changed.
    #[error("no override has this target: `shunt status` lists them")]
    NoSuchOverride,
    /// No event waits.
    #[error("no event waits for a decision")]
    NothingHeld,
    /// Another event waits than the one that was named.
    #[error(
        "event {asked} does not wait for a decision, or no longer; event {held} does: `shunt status` shows it"
    )]
    AnotherHeld {
        /// The number of the named one.
        asked: u64,
        /// That of the one that waits.
        held: u64,
    },
    /// It leads to something that cannot be.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The event that was confirmed cannot take effect.
    #[error("{0}")]
    Confirmed(String),
    /// The change holds, but not after the agent's restart.
    #[error("it holds until the agent's end, but cannot be kept: {0}")]
    Keep(#[from] SteeringError),
}
