//! Events that come as calls, through the agent's socket.

use std::{
    fmt, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use shunt_model::{EventError, RendererEvent};
use shunt_runtime::{Acceptance, ApplyError, Ending, EventQueue, Origin};

use crate::event_source::EventSource;

/// The calls at the agent's socket. The server of the socket puts them in.
#[derive(Debug)]
pub struct SocketSource {
    path: PathBuf,
}

impl SocketSource {
    /// The calls at the socket of this path.
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl fmt::Display for SocketSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "listening at {}", self.path.display())
    }
}

impl EventSource for SocketSource {
    type Handle = Calls;

    fn start(self, queue: EventQueue) -> io::Result<Calls> {
        Ok(Calls {
            queue,
            count: Arc::default(),
        })
    }
}

/// The end at which calls are put in.
#[derive(Debug, Clone)]
pub struct Calls {
    queue: EventQueue,
    /// Number of calls, over all clients.
    count: Arc<AtomicU64>,
}

impl Calls {
    /// Delivers the event that a call has brought, or what was wrong with it, and waits for what
    /// becomes of it. A Resync replaces what another source has brought only if it comes `over_source`.
    ///
    /// # Errors
    ///
    /// If the receiver of events is gone.
    pub async fn deliver(
        &self,
        event: Result<RendererEvent, EventError>,
        over_source: bool,
    ) -> Result<Result<Acceptance, ApplyError>, Ending> {
        let origin = Origin {
            unit: "call",
            number: self.count.fetch_add(1, Ordering::Relaxed) + 1,
        };
        self.queue.deliver_foreign(origin, event, over_source).await
    }
}

#[cfg(test)]
mod tests {
    use shunt_model::Fault;
    use shunt_runtime::queue;

    use super::*;

    #[tokio::test]
    async fn calls_are_counted_over_all_clients_and_get_their_answers() {
        let (queue, mut requests) = queue();
        let calls = SocketSource::new("/run/shunt.sock".into())
            .start(queue)
            .unwrap();
        let other = calls.clone();
        let interfaces = || Ok(RendererEvent::UpdateLocalFrontendIfs([].into()));
        let wrong = Err(Fault::UnfinishedSnapshot.into());
        let loop_end = async {
            let first = requests.next_event().await;
            let second = requests.next_event().await;
            [first, second].map(Option::unwrap)
        };
        let (seen, first, second) = tokio::join!(
            loop_end,
            calls.deliver(interfaces(), false),
            other.deliver(wrong, false)
        );
        let error = "call 2: the snapshot is unfinished: its last piece did not come";
        assert_eq!(seen, ["call 1: UpdateLocalFrontendIfs", error]);
        assert_eq!(first.unwrap().unwrap(), Acceptance::Held);
        assert!(second.unwrap().is_ok(), "whoever answers decides");
        drop(requests);
        assert!(matches!(
            calls.deliver(interfaces(), false).await,
            Err(Ending)
        ));
    }
}
