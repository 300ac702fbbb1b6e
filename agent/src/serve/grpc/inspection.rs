//! Calls that ask what is live.

use std::{net::IpAddr, pin::Pin};

use futures_util::stream::{self, Stream};
use shunt_api::proto::{
    ConntrackRequest, ConntrackResponse, LookupRequest, LookupResponse, ServicesRequest,
    ServicesResponse, StatusRequest, StatusResponse, inspection_server::Inspection,
};
use shunt_model::Escaped;
use tonic::{Request, Response, Status, async_trait};

use crate::{
    runtime::{
        frontends::{FrontendList, InspectedFrontend},
        inspector::Inspector,
    },
    serve::grpc::status_code::unreadable,
};

/// A piece of a listing has at most this many backends, unless one frontend alone has more.
const PIECE: usize = 4096;

/// What a method gives piece by piece.
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

    async fn frontends(&self) -> Result<FrontendList, Status> {
        self.inspector
            .frontends()
            .await
            .map_err(|error| unreadable(&error))
    }
}

#[async_trait]
impl Inspection for InspectionService {
    type ServicesStream = Pieces<ServicesResponse>;

    async fn services(
        &self,
        _request: Request<ServicesRequest>,
    ) -> Result<Response<Self::ServicesStream>, Status> {
        let FrontendList {
            frontends,
            missing,
            untranslated: _,
        } = self.frontends().await?;
        let mut frontends = frontends.into_iter().peekable();
        let mut missing = Some(missing.into_iter().map(Into::into));
        // The rest is made into messages only when the client has taken what came before.
        let pieces = std::iter::from_fn(move || {
            let first = missing.take();
            if first.is_none() && frontends.peek().is_none() {
                return None;
            }
            let mut piece = ServicesResponse {
                missing: first.into_iter().flatten().collect(),
                frontends: Vec::new(),
            };
            let mut backends = 0;
            while backends < PIECE
                && let Some(next) = frontends.next()
            {
                backends += 1 + next.backends().len();
                piece.frontends.push(next.view().into());
            }
            Some(Ok(piece))
        });
        Ok(Response::new(Box::pin(stream::iter(pieces))))
    }

    async fn status(
        &self,
        _request: Request<StatusRequest>,
    ) -> Result<Response<StatusResponse>, Status> {
        let status = self
            .inspector
            .status()
            .await
            .map_err(|error| unreadable(&error))?;
        Ok(Response::new(status.into()))
    }

    type ConntrackStream = Pieces<ConntrackResponse>;

    async fn conntrack(
        &self,
        _request: Request<ConntrackRequest>,
    ) -> Result<Response<Self::ConntrackStream>, Status> {
        // Reads on only when the client has taken what came before.
        let pieces = stream::try_unfold(self.inspector.connections(), async |pieces| {
            let next = pieces.next().await.map_err(|error| unreadable(&error))?;
            Ok(next.map(|(piece, rest)| {
                let connections = piece.into_iter().map(Into::into).collect();
                (ConntrackResponse { connections }, rest)
            }))
        });
        Ok(Response::new(Box::pin(pieces)))
    }

    async fn lookup(
        &self,
        request: Request<LookupRequest>,
    ) -> Result<Response<LookupResponse>, Status> {
        let LookupRequest { ip, port } = request.into_inner();
        let ip: IpAddr = ip.parse().map_err(|_| {
            let ip = Escaped(&ip);
            Status::invalid_argument(format!("ip: `{ip}` is not an IP address"))
        })?;
        let port = match port {
            Some(0) => return Err(Status::invalid_argument("port: the port is 0")),
            Some(port) => Some(u16::try_from(port).map_err(|_| {
                Status::invalid_argument(format!("port: {port} is more than a port can be"))
            })?),
            None => None,
        };
        let is_asked =
            |found_ip, found_port| found_ip == ip && port.is_none_or(|port| port == found_port);
        let FrontendList { frontends, .. } = self.frontends().await?;
        let chosen = |is_chosen: &dyn Fn(&InspectedFrontend) -> bool| {
            let chosen = frontends.iter().filter(|frontend| is_chosen(frontend));
            chosen.map(|frontend| frontend.view().into()).collect()
        };
        Ok(Response::new(LookupResponse {
            frontends: chosen(&|frontend| {
                let key = frontend.key();
                is_asked(key.address, key.port)
            }),
            backend_of: chosen(&|frontend| {
                let mut backends = frontend.backends().iter();
                backends.any(|backend| is_asked(backend.ip, backend.port))
            }),
        }))
    }
}
