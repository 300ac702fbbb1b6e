//! The call that reports what becomes of connections and packets.

use std::time::Duration;

use futures_util::stream::{self, Stream};
use shunt_api::{
    proto::{MonitorRequest, MonitorResponse},
    view::FlowEvent,
};
use shunt_runtime::{Wanted, Watching};
use tokio::time::timeout;
use tonic::Status;

use crate::grpc::filter::meant;

/// Time without an event after which a client gets the number of lost ones.
const SILENCE: Duration = Duration::from_secs(5);

/// Returns what a request asks for.
pub(super) fn wanted(request: MonitorRequest) -> Result<Wanted, Status> {
    let MonitorRequest {
        filter,
        sample,
        packets,
    } = request;
    Ok(Wanted {
        filter: meant(filter)?,
        one_in: sample,
        packets,
    })
}

/// The events, as they come; the first message has none.
pub(super) fn messages(
    watching: Watching,
) -> impl Stream<Item = Result<MonitorResponse, Status>> + Send {
    stream::unfold((watching, true), async |(mut watching, is_first)| {
        let events = if is_first {
            Some(Vec::new())
        } else {
            // Nothing is lost by waiting anew.
            timeout(SILENCE, watching.next())
                .await
                .unwrap_or_else(|_| Some(Vec::new()))
        };
        let events = events?.into_iter();
        let message = MonitorResponse {
            events: events
                .map(|event| FlowEvent::clone(&event).into())
                .collect(),
            lost: watching.lost(),
        };
        Some((Ok(message), (watching, false)))
    })
}
