//! Calls of an operator.

use std::time::{Duration, SystemTime};

use shunt_api::{
    proto::{
        self, Applied, DecideRemovalRequest, FlushConntrackRequest, FlushConntrackResponse,
        RemovalDecision, RemoveOverrideRequest, SetOverrideRequest, control_server::Control,
    },
    view::{ConnectionFilter, Override},
};
use shunt_runtime::{Acceptance, ControlError, Decision, Ending, Inspector};
use tonic::{Request, Response, Status, async_trait};

use crate::grpc::{
    events::applied,
    filter::meant,
    status_code::{ending, not_done, senseless, unreadable},
};

/// `shunt.v1.Control`.
#[derive(Clone)]
pub(super) struct ControlService {
    inspector: Inspector,
}

impl ControlService {
    pub(super) const fn new(inspector: Inspector) -> Self {
        Self { inspector }
    }
}

#[async_trait]
impl Control for ControlService {
    async fn flush_conntrack(
        &self,
        request: Request<FlushConntrackRequest>,
    ) -> Result<Response<FlushConntrackResponse>, Status> {
        let FlushConntrackRequest { filter, all } = request.into_inner();
        let filter: ConnectionFilter = meant(filter)?;
        if filter.is_all() && !all {
            let text = "filter: nothing is set, and all connections are not meant";
            return Err(Status::invalid_argument(text));
        }
        let flushed = self.inspector.flush(filter).await;
        let flushed = flushed.map_err(|error| unreadable(&error))?;
        Ok(Response::new(FlushConntrackResponse { flushed }))
    }

    async fn set_override(
        &self,
        request: Request<SetOverrideRequest>,
    ) -> Result<Response<Applied>, Status> {
        let SetOverrideRequest {
            r#override: change,
            seconds,
        } = request.into_inner();
        let Override(change) = understood(change)?;
        let until = seconds.map(|seconds| {
            let end = SystemTime::now().checked_add(Duration::from_secs(seconds));
            end.ok_or_else(|| senseless("seconds", "no clock goes so far"))
        });
        answer(
            self.inspector
                .set_override(change, until.transpose()?)
                .await,
        )
    }

    async fn remove_override(
        &self,
        request: Request<RemoveOverrideRequest>,
    ) -> Result<Response<Applied>, Status> {
        let RemoveOverrideRequest { r#override: change } = request.into_inner();
        let Override(change) = understood(change)?;
        answer(self.inspector.remove_override(change).await)
    }

    async fn decide_removal(
        &self,
        request: Request<DecideRemovalRequest>,
    ) -> Result<Response<Applied>, Status> {
        let (number, decision) = decision(&request.into_inner())?;
        answer(self.inspector.decide_removal(number, decision).await)
    }
}

/// The number of an event, and what becomes of it.
fn decision(request: &DecideRemovalRequest) -> Result<(u64, Decision), Status> {
    let &DecideRemovalRequest {
        confirm: _,
        decision,
        number,
    } = request;
    let decision = match RemovalDecision::try_from(decision) {
        Ok(RemovalDecision::Confirm) => Decision::Confirm,
        Ok(RemovalDecision::Discard) => Decision::Discard,
        Ok(RemovalDecision::Unspecified) => {
            let text = "it is missing; a request of an earlier version does not name the event, and could meet another \
                        one than was meant";
            return Err(senseless("decision", text));
        }
        Err(error) => return Err(senseless("decision", error)),
    };
    if number == 0 {
        let text = "it is missing; `shunt status` shows that of the event that waits";
        return Err(senseless("number", text));
    }
    Ok((number, decision))
}

fn understood(change: Option<proto::Override>) -> Result<Override, Status> {
    let change = change.ok_or_else(|| Status::invalid_argument("missing field `override`"))?;
    Override::try_from(change).map_err(|error| senseless("override", error))
}

fn answer(
    done: Result<Result<Acceptance, ControlError>, Ending>,
) -> Result<Response<Applied>, Status> {
    let accepted = done.map_err(ending)?.map_err(|error| not_done(&error))?;
    Ok(Response::new(applied(accepted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_names_the_event() {
        let request = |confirm, decision: RemovalDecision, number| DecideRemovalRequest {
            confirm,
            decision: decision.into(),
            number,
        };
        let (unspecified, confirm, discard) = (
            RemovalDecision::Unspecified,
            RemovalDecision::Confirm,
            RemovalDecision::Discard,
        );
        for (request, part) in [
            (request(false, unspecified, 0), "decision: it is missing"),
            (request(true, unspecified, 0), "decision: it is missing"),
            (request(false, unspecified, 7), "decision: it is missing"),
            (request(true, confirm, 0), "number: it is missing"),
            (request(false, discard, 0), "number: it is missing"),
        ] {
            let status = decision(&request).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{request:?}");
            assert!(status.message().contains(part), "{request:?}: {status}");
        }
        let unknown = DecideRemovalRequest {
            decision: 9,
            ..request(true, confirm, 7)
        };
        assert!(decision(&unknown).is_err());
        for (asked, expected) in [(confirm, Decision::Confirm), (discard, Decision::Discard)] {
            let (number, decided) = decision(&request(false, asked, 7)).unwrap();
            assert_eq!((number, decided), (7, expected));
        }
    }
}
