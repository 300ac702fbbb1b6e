//! Check which TCP connections are to a backend that is gone for good: the events know, the backend
//! table does not.

use shunt_datapath::{IsGone, StaleConnection};
use shunt_model::{FrontendKey, Protocol, Renderer};

use crate::{queue::EventQueue, request::Request};

/// Asks the event loop behind `queue`, a batch at a time, in turn with events. If there is no
/// answer any more, nothing is gone.
pub fn is_gone(queue: EventQueue) -> IsGone {
    Box::new(move |connections| {
        let none = vec![false; connections.len()];
        let answer = queue.ask_blocking(|answer| Request::AreGone(connections, answer));
        answer.unwrap_or(none)
    })
}

/// Returns for each connection whether its endpoint has left its service port, by all that `renderer`
/// knows.
pub(super) fn are_gone(renderer: &Renderer, connections: &[StaleConnection]) -> Vec<bool> {
    let is_gone = |connection: &StaleConnection| {
        let StaleConnection { frontend, backend } = *connection;
        let key = FrontendKey {
            address: frontend.ip(),
            port: frontend.port(),
            protocol: Protocol::Tcp,
        };
        renderer.is_synced() && !renderer.has_endpoint(key, backend)
    };
    connections.iter().map(is_gone).collect()
}
