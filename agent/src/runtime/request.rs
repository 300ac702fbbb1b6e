//! What the event loop is asked, by whoever asks it.

use std::{collections::BTreeSet, io, net::IpAddr, sync::Arc};

use shunt_api::view::Status;
use shunt_datapath::StaleConnection;
use shunt_model::{EventError, RendererEvent};
use tokio::sync::oneshot;

use crate::runtime::{
    circumstances::Circumstances,
    error::InspectError,
    figures::Figures,
    frontends::FrontendList,
    origin::Origin,
    outcome::{Acceptance, ApplyError},
    reports::Reports,
};

/// A request. All of them go through one queue and are answered one at a time, so that events
/// take effect in the order of their arrival, whatever way they came. An answer that nobody waits
/// for any more is dropped.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every request is an event, and few are in the queue"
)]
#[derive(Debug)]
pub(super) enum Request {
    /// An event, or what was wrong with it.
    Event {
        origin: Origin,
        event: Result<RendererEvent, EventError>,
        circumstances: Circumstances,
        queued: Queued,
        /// Where to say what became of it, besides the log.
        answer: Option<oneshot::Sender<Result<Acceptance, ApplyError>>>,
    },
    /// A source has ended, or failed at this event of it.
    Ended(Result<(), (Origin, io::Error)>),
    /// The host's interfaces have these addresses now.
    HostAddresses(BTreeSet<IpAddr>),
    /// The frontends in the kernel.
    Frontends(oneshot::Sender<Result<FrontendList, InspectError>>),
    /// Which of these connections are to endpoints that are gone.
    AreGone(Vec<StaleConnection>, oneshot::Sender<Vec<bool>>),
    /// How the agent is, in figures.
    Figures(oneshot::Sender<Figures>),
    /// How the agent is.
    Status(oneshot::Sender<Result<Status, InspectError>>),
}

/// That an event waits or is being applied, until this is dropped.
#[derive(Debug)]
pub(super) struct Queued(Arc<Reports>);

impl Queued {
    pub(super) fn new(reports: &Arc<Reports>) -> Self {
        reports.queued();
        Self(Arc::clone(reports))
    }

    pub(super) const fn reports(&self) -> &Arc<Reports> {
        &self.0
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.unqueued();
    }
}
