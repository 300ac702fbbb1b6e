//! Calls that ask what is live.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU16,
    pin::Pin,
    sync::Arc,
};

use futures_util::{
    TryStreamExt as _,
    stream::{self, Stream},
};
use shunt_api::{
    message,
    proto::{
        self, ConntrackRequest, ConntrackResponse, DumpRequest, DumpResponse, LookupRequest,
        LookupResponse, MonitorRequest, MonitorResponse, ServicesRequest, ServicesResponse,
        StatusRequest, StatusResponse, WatchRequest, WatchResponse, inspection_server::Inspection,
    },
    view::{self, FrontendFilter, ProtocolNumber},
};
use shunt_model::{Delta, FrontendKind, Protocol, Query, ServiceId, Subject};
use shunt_runtime::{FrontendList, InspectedFrontend, Inspector, Observed};
use tonic::{Request, Response, Status, async_trait};

use crate::grpc::{
    filter::meant,
    monitor,
    status_code::{ending, senseless, unreadable},
};

/// Stream that a method returns piece by piece.
type Pieces<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// `shunt.v1.Inspection`.
#[derive(Clone)]
pub(super) struct InspectionService {
    inspector: Inspector,
}

impl InspectionService {
    pub(super) const fn new(inspector: Inspector) -> Self {
        Self { inspector }
    }

    /// The frontends that the filter takes, and those that are missing.
    async fn filtered(&self, filter: &FrontendFilter) -> Result<FrontendList, Status> {
        let inspector = &self.inspector;
        let takes = |frontend: &InspectedFrontend| frontend.is_taken(filter);
        let list = match filter.service() {
            Some(id) => {
                let query = Query::service(Arc::new(id), None, None);
                inspector.frontends_of(query, takes).await
            }
            None => inspector.frontends(takes).await,
        };
        let mut list = list.map_err(|error| unreadable(&error))?;
        list.missing.retain(|key| filter.takes_missing(key));
        Ok(list)
    }
}

#[async_trait]
impl Inspection for InspectionService {
    type ServicesStream = Pieces<ServicesResponse>;

    async fn services(
        &self,
        request: Request<ServicesRequest>,
    ) -> Result<Response<Self::ServicesStream>, Status> {
        let ServicesRequest { filter } = request.into_inner();
        let filter = meant(filter)?;
        let memory = self.inspector.borrow_memory();
        let FrontendList { frontends, missing } = self.filtered(&filter).await?;
        let missing = missing.into_iter().map(Into::into).collect();
        // The rest is made into messages only when the client has taken what came before.
        let frontends = frontends.into_iter().map(move |frontend| {
            let _held = &memory;
            frontend.view().into()
        });
        let pieces = message::services_pieces(missing, frontends).map(Ok);
        Ok(Response::new(Box::pin(stream::iter(pieces))))
    }

    async fn status(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<StatusResponse>, Status> {
        let StatusRequest { brief } = request.into_inner();
        let status = self
            .inspector
            .status(brief)
            .await
            .map_err(|error| unreadable(&error))?;
        Ok(Response::new(status.into()))
    }

    type ConntrackStream = Pieces<ConntrackResponse>;

    async fn conntrack(
        &self,
        request: Request<ConntrackRequest>,
    ) -> Result<Response<Self::ConntrackStream>, Status> {
        let ConntrackRequest { filter } = request.into_inner();
        let filter = meant(filter)?;
        // Reads on only when the client has taken what came before.
        let pieces = stream::try_unfold(self.inspector.connections(filter), async |pieces| {
            let next = pieces.next().await.map_err(|error| unreadable(&error))?;
            Ok(next.map(|(piece, rest)| {
                let connections = piece.into_iter().map(Into::into).collect();
                (ConntrackResponse { connections }, rest)
            }))
        });
        Ok(Response::new(Box::pin(pieces)))
    }

    type DumpStream = Pieces<DumpResponse>;

    async fn dump(
        &self,
        _request: Request<DumpRequest>,
    ) -> Result<Response<Self::DumpStream>, Status> {
        let lines = self.inspector.dump().await;
        let lines = lines.map_err(|error| unreadable(&error))?;
        // Reads on only when the client has taken what came before.
        let pieces = stream::try_unfold(lines, async |lines| {
            let next = lines.next().await.map_err(|error| unreadable(&error))?;
            Ok(next.map(|(lines, rest)| (DumpResponse { lines }, rest)))
        });
        Ok(Response::new(Box::pin(pieces)))
    }

    type LookupStream = Pieces<LookupResponse>;

    async fn lookup(
        &self,
        request: Request<LookupRequest>,
    ) -> Result<Response<Self::LookupStream>, Status> {
        let LookupRequest {
            ip,
            port,
            protocol,
            service,
        } = request.into_inner();
        let query = query(&ip, port, protocol, service)?;
        let Observed { generation, answer } =
            self.inspector.lookup(query.clone()).await.map_err(ending)?;
        let asks_at = |key: view::FrontendKey| {
            asks(&query, SocketAddr::new(key.address, key.port), key.protocol)
        };
        let is_there = |frontend: &InspectedFrontend| {
            asks_at(frontend.key()) || asks_of_service(&query, frontend)
        };
        let has_it_behind = |frontend: &InspectedFrontend| {
            let protocol = frontend.key().protocol;
            let mut backends = frontend.backends().iter();
            backends
                .any(|backend| asks(&query, SocketAddr::new(backend.ip, backend.port), protocol))
        };
        let is_wanted =
            |frontend: &InspectedFrontend| is_there(frontend) || has_it_behind(frontend);
        // Before the first Resync no event leads to the frontends in the kernel.
        let list = match generation {
            0 => self.inspector.frontends(is_wanted).await,
            _ => self.inspector.frontends_of(query.clone(), is_wanted).await,
        };
        let FrontendList { frontends, missing } = list.map_err(|error| unreadable(&error))?;
        let chosen = |is_chosen: &dyn Fn(&InspectedFrontend) -> bool| {
            let chosen = frontends.iter().filter(|frontend| is_chosen(frontend));
            chosen.map(|frontend| frontend.view().into()).collect()
        };
        let missing = missing.into_iter().filter(|key| asks_at(*key));
        let whole = LookupResponse {
            frontends: chosen(&is_there),
            backend_of: chosen(&has_it_behind),
            missing: missing.map(Into::into).collect(),
            answer: Some(message::answer(generation, &answer)),
        };
        let pieces = message::lookup_pieces(whole).map(Ok);
        Ok(Response::new(Box::pin(stream::iter(pieces))))
    }

    type WatchStream = Pieces<WatchResponse>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let WatchRequest {
            ip,
            port,
            protocol,
            service,
        } = request.into_inner();
        let query = query(&ip, port, protocol, service)?;
        let followed = self.inspector.follow(query).await;
        let following = followed.map_err(|error| unreadable(&error))?;
        // The next change is made when the client has taken the one before, of the newest answer.
        let changes = stream::try_unfold((following, true), async |(mut following, is_first)| {
            if is_first {
                let Observed { generation, answer } = &**following.current();
                let first = message::delta(*generation, true, &Delta::all(answer));
                return Ok::<_, Status>(Some((first, (following, false))));
            }
            let before = Arc::clone(following.current());
            loop {
                let newest = following.changed().await.map_err(ending)?;
                let Observed { generation, answer } = &**newest;
                let delta = Delta::between(&before.answer, answer);
                // What came and went again meanwhile is not reported.
                if !delta.is_nothing() {
                    let next = message::delta(*generation, false, &delta);
                    return Ok(Some((next, (following, false))));
                }
            }
        });
        let messages = changes
            .map_ok(|change| stream::iter(message::watch_pieces(change).map(Ok)))
            .try_flatten();
        Ok(Response::new(Box::pin(messages)))
    }

    type MonitorStream = Pieces<MonitorResponse>;

    async fn monitor(
        &self,
        request: Request<MonitorRequest>,
    ) -> Result<Response<Self::MonitorStream>, Status> {
        let wanted = monitor::wanted(request.into_inner())?;
        let watching = self.inspector.watch_flows(wanted).await;
        let watching = watching.map_err(|error| unreadable(&error))?;
        Ok(Response::new(Box::pin(monitor::messages(watching))))
    }
}

/// The question that a request asks.
fn query(
    ip: &str,
    port: Option<u32>,
    protocol: i32,
    service: Option<proto::ServiceId>,
) -> Result<Query, Status> {
    let port = match port {
        Some(port) => {
            let number = u16::try_from(port)
                .map_err(|_| senseless("port", format!("{port} is more than a port can be")))?;
            let number = NonZeroU16::new(number);
            Some(number.ok_or_else(|| senseless("port", "the port is 0"))?)
        }
        None => None,
    };
    let protocol = match u8::try_from(protocol) {
        Ok(0) => None,
        number => {
            let known = number.ok().and_then(Protocol::from_number);
            Some(known.ok_or_else(|| {
                senseless("protocol", format!("{protocol} is not TCP, UDP or SCTP"))
            })?)
        }
    };
    if let Some(proto::ServiceId { namespace, name }) = service {
        if !ip.is_empty() {
            let text = "either an address or a service is asked about, not both";
            return Err(Status::invalid_argument(text));
        }
        let id = Arc::new(ServiceId::new(&namespace, &name));
        return Ok(Query::service(id, port, protocol));
    }
    let address: IpAddr = ip
        .parse()
        .map_err(|_| senseless("ip", format!("`{ip}` is not an IP address")))?;
    Ok(Query::address(address, port, protocol))
}

/// Returns whether the question is about the service that has the frontend, by the events, at this port of it.
fn asks_of_service(query: &Query, frontend: &InspectedFrontend) -> bool {
    let Query {
        subject,
        port,
        protocol,
    } = query;
    let (Subject::Service(id), Some((service, kind))) = (subject, frontend.of()) else {
        return false;
    };
    let key = frontend.key();
    // A node port is no port of the service.
    let is_at = |port: NonZeroU16| kind != FrontendKind::NodePort && port.get() == key.port;
    id == service
        && port.is_none_or(is_at)
        && protocol.is_none_or(|asked| ProtocolNumber::from(asked) == key.protocol)
}

/// Returns whether the question is about this place in the kernel's tables, too.
fn asks(query: &Query, place: SocketAddr, protocol: ProtocolNumber) -> bool {
    let Query {
        subject,
        port,
        protocol: asked,
    } = query;
    *subject == Subject::Address(place.ip())
        && port.is_none_or(|port| port.get() == place.port())
        && asked.is_none_or(|asked| ProtocolNumber::from(asked) == protocol)
}
