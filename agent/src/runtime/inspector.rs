//! What others see of the agent: snapshots and streams, never the agent itself.

use std::fmt;

use shunt_api::view::Status;
use shunt_datapath::Connections;

use crate::runtime::{
    conntrack::ConnectionPieces, error::InspectError, frontends::FrontendList, queue::EventQueue,
    request::Request,
};

/// Looks at a running agent. What the event loop knows goes through its queue, the connections are
/// read beside it.
#[derive(Clone)]
pub struct Inspector {
    queue: EventQueue,
    connections: Connections,
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl Inspector {
    /// Looks at the agent whose loop reads `queue` and whose connections these are.
    pub const fn new(queue: EventQueue, connections: Connections) -> Self {
        Self { queue, connections }
    }

    /// The frontends in the kernel.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or the agent is ending.
    pub async fn frontends(&self) -> Result<FrontendList, InspectError> {
        self.queue.ask(Request::Frontends).await?
    }

    /// How the agent is.
    ///
    /// # Errors
    ///
    /// If the tables or the counters cannot be read, or the agent is ending.
    pub async fn status(&self) -> Result<Status, InspectError> {
        self.queue.ask(Request::Status).await?
    }

    /// The connections, read when they are asked for.
    pub fn connections(&self) -> ConnectionPieces {
        ConnectionPieces::of(&self.connections)
    }
}
