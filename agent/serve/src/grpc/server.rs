//! The server, which has threads of its own, so that neither a huge message nor a slow client keeps
//! the event loop waiting: a message is decoded and checked there, and only then put into the queue.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use shunt_api::{
    DESCRIPTION, MESSAGE_LIMIT,
    proto::{
        control_server::ControlServer, events_server::EventsServer,
        inspection_server::InspectionServer,
    },
};
use shunt_http::{Listening, SocketFile};
use shunt_runtime::{Inspector, give_way};
use shunt_source::Calls;
use tokio::{
    net::UnixListener,
    runtime::{self, Runtime},
    sync::mpsc,
};
use tonic::service::Routes;

use crate::{
    calls::{limits::CallLimits, server::serve},
    grpc::{
        control::ControlService,
        events::EventsService,
        inspection::InspectionService,
        socket::{Shared, keep},
    },
};

/// Threads: while one decodes a large message, others answer.
const THREADS: usize = 2;

/// A running server. Dropping it ends it, and removes its socket.
#[derive(Debug)]
pub struct Server {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    socket: Shared,
}

impl Server {
    /// Begins to serve at `socket`, within `limits`: events become `calls`, questions go to `inspector`.
    ///
    /// # Errors
    ///
    /// If its threads cannot be started.
    pub fn start(
        mut socket: SocketFile,
        limits: CallLimits,
        calls: Calls,
        inspector: Inspector,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("server")
            .on_thread_start(give_way)
            .enable_all()
            .build()?;
        let events =
            EventsServer::new(EventsService::new(calls)).max_decoding_message_size(MESSAGE_LIMIT);
        let control = ControlServer::new(ControlService::new(inspector.clone()));
        let reports = Arc::clone(inspector.reports());
        let inspection = InspectionServer::new(InspectionService::new(inspector));
        let (reporter, health) = tonic_health::server::health_reporter();
        let description = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTION)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let reflection = description().build_v1().map_err(io::Error::other)?;
        // Older clients know this one alone.
        let reflection_alpha = description().build_v1alpha().map_err(io::Error::other)?;
        let listener = socket.take_listener()?;
        let listener = {
            let _inside = runtime.enter();
            UnixListener::from_std(listener)?
        };
        let socket: Shared = Arc::new(Mutex::new(Some(socket)));
        let (streams, incoming) = mpsc::channel(1);
        runtime.spawn(keep(listener, Arc::clone(&socket), streams, reports));
        runtime.spawn(async move {
            reporter.set_serving::<EventsServer<EventsService>>().await;
            reporter
                .set_serving::<InspectionServer<InspectionService>>()
                .await;
            reporter
                .set_serving::<ControlServer<ControlService>>()
                .await;
        });
        let routes = Routes::new(events)
            .add_service(inspection)
            .add_service(control)
            .add_service(health)
            .add_service(reflection)
            .add_service(reflection_alpha);
        runtime.spawn(serve(Listening::Channel(incoming), limits, None, routes));
        Ok(Self {
            runtime: Some(runtime),
            socket,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A client that still waits for an answer sees the connection's end.
            runtime.shutdown_background();
        }
        // The file goes with it.
        let socket = self.socket.lock();
        drop(socket.unwrap_or_else(PoisonError::into_inner).take());
    }
}
