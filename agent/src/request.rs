//! What the agent's loop is asked, by whoever asks it.

use std::{path::PathBuf, time::Duration};

use thiserror::Error;
use tokio::sync::oneshot;

use shunt_model::{EventError, Line, LineError, RendererEvent};

use crate::agent::{
    ApplyError, Outcome,
    inspection::{AgentStatus, FrontendList, InspectError},
};

/// A request. All of them go through one queue and are answered one at a time, so that events
/// take effect in the order of their arrival, whatever way they came. An answer that nobody waits
/// for any more is dropped.
#[derive(Debug)]
pub enum Request {
    /// A line of the event file or stream; it is answered in the log alone. `None`: its end.
    Line(Option<Result<Line, LineError>>),
    /// An event that came through the socket, or what was wrong with it.
    Event {
        /// The event.
        event: Result<RendererEvent, EventError>,
        /// What became of it.
        answer: oneshot::Sender<Result<Answer, Refusal>>,
    },
    /// The frontends in the kernel.
    Frontends(oneshot::Sender<Result<FrontendList, InspectError>>),
    /// How the agent is.
    Health(oneshot::Sender<Result<Health, InspectError>>),
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It took effect.
    Applied(Outcome),
    /// It takes effect after the first Resync.
    Held,
}

/// Why an event had no effect.
#[derive(Debug, Error)]
pub enum Refusal {
    /// It is wrong by itself.
    #[error(transparent)]
    Event(#[from] EventError),
    /// It cannot be applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// How the agent is, and what it has been through.
#[derive(Debug, Clone)]
pub struct Health {
    /// Renderer and datapath.
    pub status: AgentStatus,
    /// Where tables, programs and links are pinned, if they are.
    pub pin_dir: Option<PathBuf>,
    /// Since its start.
    pub uptime: Duration,
    /// Events that took effect since then.
    pub applied: u64,
    /// Events that were refused since then.
    pub refused: u64,
    /// What the log said of the last of these, and how long ago.
    pub last_error: Option<(String, Duration)>,
}
