//! The server of the page, which has a thread of its own.

use std::{io, net::IpAddr, sync::Arc};

use shunt_http::{Limits, Listening, ServeListener, SocketFile, accept_from};
use shunt_runtime::{Inspector, Listener, ListenerState, Reports, give_way};
use tokio::runtime::{self, Runtime};

use crate::ui::{
    api::Page,
    assets,
    door::Door,
    events::Events,
    hosts::Hosts,
    sampler::{Sampler, milliseconds},
    settings::UiSettings,
    sign_in::SignIn,
    status::LastStatus,
    turn::Turn,
};

const LIMITS: Limits = Limits {
    // A browser has six.
    connections: 64,
    ..Limits::SHORT
};

/// A running server. Dropping it ends it, and removes its socket if it has one.
#[derive(Debug)]
pub struct UiServer {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    reports: Arc<Reports>,
    _socket: Option<SocketFile>,
}

impl UiServer {
    /// Begins to show at `listener` what `inspector` finds; `place` is how the status calls it.
    ///
    /// # Errors
    ///
    /// If its thread cannot be started.
    pub fn start(
        listener: ServeListener,
        place: String,
        inspector: Inspector,
        settings: UiSettings,
    ) -> io::Result<Self> {
        let UiSettings {
            hosts,
            token,
            changes,
        } = settings;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("ui")
            .on_thread_start(give_way)
            .enable_all()
            .build()?;
        let reports = Arc::clone(inspector.reports());
        let sampler = Arc::new(Sampler::new(inspector, changes));
        let (listening, bound, socket) = listen(&runtime, listener)?;
        let page = Page {
            door: Door {
                hosts: Hosts::new(bound, &hosts),
                sign_in: token.map(SignIn::new).transpose()?,
            },
            sampler: Arc::clone(&sampler),
            run: milliseconds(),
            build: assets::build(),
            reading: Turn::default(),
            status: LastStatus::default(),
            tracing: Turn::default(),
            events: Events::default(),
        };
        runtime.spawn(async move { sampler.run().await });
        runtime.spawn(accept_from(listening, LIMITS, Arc::new(page)));
        let state = ListenerState {
            address: place,
            problem: None,
        };
        reports.set_listener(&Listener::Page, Some(state));
        Ok(Self {
            runtime: Some(runtime),
            reports,
            _socket: socket,
        })
    }
}

/// Returns the source of connections, its address, and the socket's file, which is there as long as it is
/// served.
fn listen(
    runtime: &Runtime,
    listener: ServeListener,
) -> io::Result<(Listening, Option<IpAddr>, Option<SocketFile>)> {
    let _inside = runtime.enter();
    let bound = match &listener {
        ServeListener::Tcp(listener) => Some(listener.local_addr()?.ip()),
        ServeListener::Unix(_) => None,
    };
    let (listening, socket) = Listening::at(listener)?;
    Ok((listening, bound, socket))
}

impl Drop for UiServer {
    fn drop(&mut self) {
        self.reports.set_listener(&Listener::Page, None);
        if let Some(runtime) = self.runtime.take() {
            // A client that still waits for an answer sees the connection's end.
            runtime.shutdown_background();
        }
    }
}
