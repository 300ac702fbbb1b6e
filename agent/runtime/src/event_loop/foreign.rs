//! A Resync of a client beside a source that has the last word.

use shunt_model::EventKind;

use crate::{
    event_loop::{EventLoop, reply},
    meters::Fate,
    outcome::ApplyError,
    request::{Request, Submission},
};

impl EventLoop {
    /// Returns the request, unless it is a Resync of a client that would remove what the source has brought. The
    /// source sends its own Resync only at its start, so nothing would bring that back.
    pub(super) fn but_foreign(&mut self, request: Request) -> Option<Request> {
        let Some(source) = &self.source else {
            return Some(request);
        };
        match request {
            Request::Event(Submission {
                origin,
                event: Ok(event),
                queued,
                is_foreign: true,
                answer,
                ..
            }) if event.kind() == EventKind::Resync => {
                let error = ApplyError::Foreign(source.clone());
                let meters = queued.reports().meters();
                meters.count(Some(EventKind::Resync), Fate::Refused);
                self.refuse(&format_args!("{origin}: {}: {error}", event.subject()));
                if let Some(answer) = answer {
                    reply(answer, Err(error));
                }
                None
            }
            request => Some(request),
        }
    }
}
