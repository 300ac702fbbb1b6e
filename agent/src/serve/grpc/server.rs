//! The server, which has threads of its own, so that neither a huge message nor a slow client keeps
//! the event loop waiting: a message is decoded and checked there, and only then put into the queue.

use std::io;

use shunt_api::{
    MESSAGE_LIMIT,
    proto::{events_server::EventsServer, inspection_server::InspectionServer},
};
use tokio::{
    net::UnixListener,
    runtime::{self, Runtime},
};
use tokio_stream::wrappers::UnixListenerStream;
use tracing::error;

use crate::{
    runtime::{inspector::Inspector, priority::give_way},
    serve::{
        grpc::{events::EventsService, inspection::InspectionService},
        socket_file::SocketFile,
    },
    source::socket::Calls,
};

/// Threads: while one decodes a large message, others answer.
const THREADS: usize = 2;

/// A running server. Dropping it ends it, and removes its socket.
#[derive(Debug)]
pub struct Server {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    _socket: SocketFile,
}

impl Server {
    /// Begins to serve at `socket`: events become `calls`, questions go to `inspector`.
    ///
    /// # Errors
    ///
    /// If its threads cannot be started.
    pub fn start(mut socket: SocketFile, calls: Calls, inspector: Inspector) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("server")
            .on_thread_start(give_way)
            .enable_all()
            .build()?;
        let events =
            EventsServer::new(EventsService::new(calls)).max_decoding_message_size(MESSAGE_LIMIT);
        let inspection = InspectionServer::new(InspectionService::new(inspector));
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
