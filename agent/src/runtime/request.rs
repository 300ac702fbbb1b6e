//! What the event loop is asked, by whoever asks it.

use std::{collections::BTreeSet, io, net::IpAddr};

use shunt_api::view::Status;
use shunt_datapath::StaleConnection;
use shunt_model::{EventError, RendererEvent};
use tokio::sync::oneshot;

use crate::runtime::{
    error::InspectError,
    frontends::FrontendList,
    origin::Origin,
    outcome::{Acceptance, ApplyError},
};

/// A request. All of them go through one queue and are answered one at a time, so that events
/// take effect in the order of their arrival, whatever way they came. An answer that nobody waits
/// for any more is dropped.
#[derive(Debug)]
pub(super) enum Request {
    /// An event, or what was wrong with it.
    Event {
        origin: Origin,
        event: Result<RendererEvent, EventError>,
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
    /// How the agent is.
    Status(oneshot::Sender<Result<Status, InspectError>>),
}
