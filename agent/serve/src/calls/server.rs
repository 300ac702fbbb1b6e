//! The server of calls.

use std::{sync::Arc, time::Duration};

use http_body_util::Either;
use hyper::{Request, Response, body::Incoming};
use shunt_http::{Calls, Listening, Peer, accept_calls};
use tonic::{Status, codegen::Service as _, service::Routes};

use crate::calls::{
    body::LimitedBody,
    limits::{CallLimits, of_streams},
    room::{CallPlace, Room, count_refusal},
};

/// Calls that last as long as their client wants. `Events/Stream` is that of `shunt apply`, and ends with its events.
const LASTING: [&str; 8] = [
    "/shunt.v1.Inspection/Watch",
    "/shunt.v1.Inspection/Monitor",
    "/io.linkerd.proxy.destination.Destination/Get",
    "/io.linkerd.proxy.destination.Destination/GetProfile",
    "/io.linkerd.proxy.outbound.OutboundPolicies/Watch",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Serves `routes` at a listener, for ever. A client that is silent for `keep_alive` has to answer a ping.
pub(crate) async fn serve(
    listening: Listening,
    limits: CallLimits,
    keep_alive: Option<Duration>,
    routes: Routes,
) {
    let limited = Limited {
        routes: routes.prepare(),
        room: Arc::new(Room::new(limits)),
    };
    let streams = of_streams(keep_alive);
    accept_calls(
        listening,
        limits.of_connections(),
        streams,
        Arc::new(limited),
    )
    .await;
}

/// Routes of calls, and the room for them.
struct Limited {
    routes: Routes,
    room: Arc<Room>,
}

impl Limited {
    async fn place(&self, path: &str, peer: Peer) -> Option<CallPlace> {
        if LASTING.contains(&path) {
            return self.room.stream(peer);
        }
        self.room.answered().await
    }
}

impl Calls for Limited {
    type Body = Either<LimitedBody, tonic::body::Body>;

    async fn call(&self, request: Request<Incoming>, peer: Peer) -> Response<Self::Body> {
        let Some(place) = self.place(request.uri().path(), peer).await else {
            count_refusal();
            let text = "too many calls of this kind at once";
            return Status::resource_exhausted(text)
                .into_http()
                .map(Either::Right);
        };
        let Ok(answer) = self.routes.clone().call(request).await;
        let room = Arc::clone(&self.room);
        answer.map(|body| Either::Left(LimitedBody::new(body, place, room)))
    }
}
