//! The gRPC service at the agent's socket: events in, what is live out.
//!
//! It has threads of its own, so that neither a huge message nor a slow client keeps the agent's
//! loop waiting: a message is decoded and checked here, and only then is the loop asked
//! ([`crate::Request`]).

mod events;
mod inspection;
mod queue;
mod show;
mod socket;
mod status_code;

use std::io;

use tokio::{
    net::UnixListener,
    runtime::{self, Runtime},
    sync::mpsc,
};
use tokio_stream::wrappers::UnixListenerStream;
use tracing::error;

pub use self::socket::{Socket, SocketError};
use shunt_api::proto::{events_server::EventsServer, inspection_server::InspectionServer};
use shunt_datapath::Connections;

use crate::{
    request::Request,
    server::{events::EventsService, inspection::InspectionService, queue::Queue},
};

/// The longest message that is taken, as long as the longest line of an event file.
pub const MESSAGE_LIMIT: usize = 256 << 20;

/// Threads: while one decodes a large message, others answer.
const THREADS: usize = 2;

/// A running service. Dropping it ends it, and removes its socket.
#[derive(Debug)]
pub struct Server {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    _socket: Socket,
}

impl Server {
    /// Begins to serve at `socket`. Requests go into `queue`; `connections` are read beside it.
    ///
    /// # Errors
    ///
    /// If its threads cannot be started.
    pub fn start(
        mut socket: Socket,
        queue: mpsc::Sender<Request>,
        connections: Connections,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("server")
            .enable_all()
            .build()?;
        let queue = Queue::new(queue);
        let events = EventsServer::new(EventsService::new(queue.clone()))
            .max_decoding_message_size(MESSAGE_LIMIT);
        let inspection = InspectionServer::new(InspectionService::new(queue, connections));
        let listener = socket.take_listener()?;
        let listener = {
            let _inside = runtime.enter();
            UnixListener::from_std(listener)?
        };
        runtime.spawn(async move {
            let served = tonic::transport::Server::builder()
                .add_service(events)
                .add_service(inspection)
                .serve_with_incoming(UnixListenerStream::new(listener));
            if let Err(error) = served.await {
                error!(%error, "the socket is no longer served");
            }
        });
        Ok(Self {
            runtime: Some(runtime),
            _socket: socket,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Whoever still waits for an answer is told by the connection's end.
            runtime.shutdown_background();
        }
    }
}
