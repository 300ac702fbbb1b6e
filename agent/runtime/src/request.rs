//! Requests to the event loop.

use std::{
    collections::BTreeSet, convert::Infallible, io, net::IpAddr, sync::Arc, time::SystemTime,
};

use shunt_api::view::Status;
use shunt_datapath::{DatapathError, FlowPrograms, FlowReader, StaleConnection, TableError};
use shunt_model::{EventError, Footprint, Frontend, FrontendKey, Override, Query, RendererEvent};
use tokio::sync::oneshot;

use crate::{
    aside::Concern,
    circumstances::Circumstances,
    error::InspectError,
    figures::Figures,
    lookup::{following::Following, observed::Observed},
    origin::Origin,
    outcome::{Acceptance, ApplyError, ControlError},
    read_back::piece::{Part, Piece, Ranges},
    reports::Reports,
};

/// A request. All of them go through one queue and are answered one at a time, so that events
/// take effect in the order of their arrival, whatever way they came; but for those that wait
/// [aside](crate::aside). An answer whose receiver is gone is dropped.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every request is an event, and few are in the queue"
)]
#[derive(Debug)]
pub(super) enum Request {
    /// An event.
    Event(Submission),
    /// A source has ended, or failed at this event of it.
    Ended(Result<(), (Origin, io::Error)>),
    /// The host's interfaces have these addresses now.
    HostAddresses(BTreeSet<IpAddr>),
    /// A source has read much and kept little of it.
    Slack,
    /// Some frontends in the kernel.
    Read(Part, Ranges, oneshot::Sender<Result<Piece, TableError>>),
    /// The frontends that the events lead to, sorted by key, without a look into the kernel.
    Wanted(oneshot::Sender<Vec<(FrontendKey, Frontend)>>),
    /// Targets behind what is asked about.
    Lookup(Query, oneshot::Sender<Observed>),
    /// The same, and whenever it changes.
    Follow(Query, oneshot::Sender<io::Result<Following>>),
    /// Check which of these connections are to endpoints that are gone.
    AreGone(Vec<StaleConnection>, oneshot::Sender<Vec<bool>>),
    /// An operator's change, and until when; or it is taken back.
    Steer(Steer, oneshot::Sender<Result<Acceptance, ControlError>>),
    /// Decision on the event of this number, which waits for it.
    Decide(
        u64,
        Decision,
        oneshot::Sender<Result<Acceptance, ControlError>>,
    ),
    /// Programs that report connections and packets, and the reader of their reports.
    LoadFlows(oneshot::Sender<Result<(FlowPrograms, FlowReader), DatapathError>>),
    /// These programs run from now on.
    TellFlows(FlowPrograms, oneshot::Sender<()>),
    /// They run no longer.
    StopFlows(oneshot::Sender<()>),
    /// The agent's figures.
    Figures(oneshot::Sender<Figures>),
    /// The agent's status.
    Status(oneshot::Sender<Result<Status, InspectError>>),
}

impl Request {
    /// Returns whether this only looks at the agent. Whatever else waits comes before it.
    pub(super) const fn is_look(&self) -> bool {
        match self {
            Self::Read(..)
            | Self::Wanted(_)
            | Self::Lookup(..)
            | Self::Figures(_)
            | Self::Status(_) => true,
            Self::Event(_)
            | Self::Ended(_)
            | Self::HostAddresses(_)
            | Self::Slack
            | Self::Follow(..)
            | Self::AreGone(..)
            | Self::Steer(..)
            | Self::Decide(..)
            | Self::LoadFlows(_)
            | Self::TellFlows(..)
            | Self::StopFlows(_) => false,
        }
    }

    /// Returns the data that decide what this has to come after, if it is about `footprint`.
    pub(super) const fn concern(&self, footprint: Footprint) -> Concern {
        let in_order = match self {
            Self::Event(submission) => submission.answer.is_none(),
            Self::Ended(_) => true,
            Self::HostAddresses(_)
            | Self::Slack
            | Self::Read(..)
            | Self::Wanted(_)
            | Self::Lookup(..)
            | Self::Follow(..)
            | Self::AreGone(..)
            | Self::Steer(..)
            | Self::Decide(..)
            | Self::LoadFlows(_)
            | Self::TellFlows(..)
            | Self::StopFlows(_)
            | Self::Figures(_)
            | Self::Status(_) => false,
        };
        Concern {
            in_order,
            footprint,
        }
    }

    /// It is to wait aside: its sender may deliver the next.
    pub(super) fn set_aside(mut self) -> Self {
        if let Self::Event(submission) = &mut self {
            submission.turn = None;
        }
        self
    }
}

/// Action of an operator on a change of endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Steer {
    /// It holds, until then if a time is given.
    Set(Override, Option<SystemTime>),
    /// The override with the same target is taken back.
    Remove(Override),
}

/// Decision on an event that waits because it would remove too many frontends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It takes effect.
    Confirm,
    /// It is forgotten.
    Discard,
}

/// An event that is handed in, or what was wrong with it.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) origin: Origin,
    pub(super) event: Result<RendererEvent, EventError>,
    pub(super) circumstances: Circumstances,
    pub(super) queued: Queued,
    /// Dropped when it is the event's turn: it is applied, or has to wait aside.
    pub(super) turn: Option<oneshot::Sender<Infallible>>,
    /// True if a client has sent it, which may not remove what the source of events has brought.
    pub(super) is_foreign: bool,
    /// Sender of the outcome, besides the log. Without one, the event's sender goes on meanwhile.
    pub(super) answer: Option<oneshot::Sender<Result<Acceptance, ApplyError>>>,
}

/// That an event waits or is being applied, until this is dropped.
#[derive(Debug)]
pub(super) struct Queued {
    reports: Arc<Reports>,
    /// Its number among the events that wait.
    number: u64,
}

impl Queued {
    pub(super) fn new(reports: &Arc<Reports>) -> Self {
        Self {
            reports: Arc::clone(reports),
            number: reports.queued(),
        }
    }

    pub(super) const fn reports(&self) -> &Arc<Reports> {
        &self.reports
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.reports.unqueued(self.number);
    }
}
