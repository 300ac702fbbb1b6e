//! Events that come as calls.

use shunt_api::{
    message::{Assembler, decode},
    proto::{
        AddServiceRequest, Applied, DeleteServiceRequest, Refused, SnapshotPiece, StreamRequest,
        StreamResponse, UpdateLocalBackendIfsRequest, UpdateLocalFrontendIfsRequest,
        UpdateNodePortServicesRequest, UpdateNodesRequest, UpdateServiceCidrsRequest,
        UpdateServiceRequest, UpdateWorkloadsRequest, events_server::Events, stream_request::Event,
        stream_response::Result as Answer,
    },
};
use shunt_model::{EventError, Fault, RendererEvent};
use shunt_runtime::{Acceptance, Outcome};
use shunt_source::Calls;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::grpc::status_code::{ending, refused};

/// Number of answers of a stream that wait for its client before the next event does.
const AHEAD: usize = 64;

/// `shunt.v1.Events`.
#[derive(Debug, Clone)]
pub(super) struct EventsService {
    calls: Calls,
}

impl EventsService {
    pub(super) const fn new(calls: Calls) -> Self {
        Self { calls }
    }

    async fn call(
        &self,
        event: Result<RendererEvent, EventError>,
    ) -> Result<Response<Applied>, Status> {
        self.call_over(event, false).await
    }

    async fn call_over(
        &self,
        event: Result<RendererEvent, EventError>,
        over_source: bool,
    ) -> Result<Response<Applied>, Status> {
        match self
            .calls
            .deliver(event, over_source)
            .await
            .map_err(ending)?
        {
            Ok(accepted) => Ok(Response::new(applied(accepted))),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Applies the events of a stream, and answers each. Ends with the stream, or when its client
    /// has gone.
    async fn follow(
        &self,
        mut messages: Streaming<StreamRequest>,
        answers: &mpsc::Sender<Result<StreamResponse, Status>>,
    ) -> Result<(), Status> {
        let mut assembler = Assembler::default();
        let mut number = 0;
        loop {
            let message = messages.message().await?;
            let ended = message.is_none();
            // A Resync is complete with its last piece.
            let over_source = matches!(
                &message,
                Some(StreamRequest {
                    event: Some(Event::Resync(piece))
                }) if piece.over_source
            );
            let events = match message {
                Some(message) => assembler.next(message),
                None => assembler.finish().into_iter().collect(),
            };
            for event in events {
                number += 1;
                let answer = match self
                    .calls
                    .deliver(event, over_source)
                    .await
                    .map_err(ending)?
                {
                    Ok(accepted) => Answer::Applied(applied(accepted)),
                    Err(error) => {
                        let status = refused(&error);
                        Answer::Refused(Refused {
                            code: status.code().into(),
                            reason: status.message().to_owned(),
                        })
                    }
                };
                let response = StreamResponse {
                    event: number,
                    result: Some(answer),
                };
                if answers.send(Ok(response)).await.is_err() {
                    return Ok(());
                }
            }
            if ended {
                return Ok(());
            }
        }
    }
}

#[async_trait]
impl Events for EventsService {
    async fn resync(
        &self,
        request: Request<Streaming<SnapshotPiece>>,
    ) -> Result<Response<Applied>, Status> {
        let mut pieces = request.into_inner();
        let mut assembler = Assembler::default();
        while let Some(piece) = pieces.message().await? {
            if let Some(event) = assembler.piece(&piece) {
                return self.call_over(event, piece.over_source).await;
            }
        }
        let unfinished = || Err(Fault::UnfinishedSnapshot.into());
        self.call(assembler.finish().unwrap_or_else(unfinished))
            .await
    }

    async fn add_service(
        &self,
        request: Request<AddServiceRequest>,
    ) -> Result<Response<Applied>, Status> {
        self.call(decode(&Event::AddService(request.into_inner())))
            .await
    }

    async fn update_service(
        &self,
        request: Request<UpdateServiceRequest>,
    ) -> Result<Response<Applied>, Status> {
        self.call(decode(&Event::UpdateService(request.into_inner())))
            .await
    }

    async fn delete_service(
        &self,
        request: Request<DeleteServiceRequest>,
    ) -> Result<Response<Applied>, Status> {
        self.call(decode(&Event::DeleteService(request.into_inner())))
            .await
    }

    async fn update_node_port_services(
        &self,
        request: Request<UpdateNodePortServicesRequest>,
    ) -> Result<Response<Applied>, Status> {
        self.call(decode(&Event::UpdateNodePortServices(request.into_inner())))
            .await
    }

    async fn update_local_frontend_ifs(
        &self,
        request: Request<UpdateLocalFrontendIfsRequest>,
    ) -> Result<Response<Applied>, Status> {
        self.call(decode(&Event::UpdateLocalFrontendIfs(request.into_inner())))
            .await
    }

    async fn update_local_backend_ifs(
        &self,
        request: Request<UpdateLocalBackendIfsRequest>,
    ) -> Result<Response<Applied>, Status> {
        self.call(decode(&Event::UpdateLocalBackendIfs(request.into_inner())))
            .await
    }

    async fn update_service_cidrs(
        &self,
        request: Request<UpdateServiceCidrsRequest>,
    ) -> Result<Response<Applied>, Status> {
        self.call(decode(&Event::UpdateServiceCidrs(request.into_inner())))
            .await
    }

    async fn update_nodes(
        &self,
        request: Request<UpdateNodesRequest>,
    ) -> Result<Response<Applied>, Status> {
        self.call(decode(&Event::UpdateNodes(request.into_inner())))
            .await
    }

    async fn update_workloads(
        &self,
        request: Request<UpdateWorkloadsRequest>,
    ) -> Result<Response<Applied>, Status> {
        self.call(decode(&Event::UpdateWorkloads(request.into_inner())))
            .await
    }

    type StreamStream = ReceiverStream<Result<StreamResponse, Status>>;

    async fn stream(
        &self,
        request: Request<Streaming<StreamRequest>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let (answers, answered) = mpsc::channel(AHEAD);
        let (service, messages) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            if let Err(status) = service.follow(messages, &answers).await {
                // The client may be gone.
                drop(answers.send(Err(status)).await);
            }
        });
        Ok(Response::new(ReceiverStream::new(answered)))
    }
}

pub(super) fn applied(accepted: Acceptance) -> Applied {
    match accepted {
        Acceptance::Held => Applied {
            held: true,
            ..Applied::default()
        },
        Acceptance::Applied(outcome) => {
            let refused = outcome.refusals().collect();
            let Outcome {
                added,
                changed,
                removed,
                untranslated,
                writes,
                conflicts,
                left_out: _,
                refused: _,
                took,
            } = outcome;
            Applied {
                held: false,
                added: added as u64,
                changed: changed as u64,
                removed: removed as u64,
                untranslated: untranslated as u64,
                writes,
                took_us: took.as_micros().try_into().unwrap_or(u64::MAX),
                conflicts: conflicts.iter().map(ToString::to_string).collect(),
                refused,
            }
        }
    }
}
