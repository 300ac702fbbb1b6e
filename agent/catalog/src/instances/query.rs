//! Queries to a catalog.

use crate::instances::{
    frontend::Frontend,
    tier::{Datacenter, GATEWAYS, Tier, Via},
};

/// The name that mesh gateways usually have as services.
const MESH_GATEWAYS: &str = "mesh-gateway";

/// A query for instances. Several frontends may have it in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Query {
    /// The service.
    pub(crate) service: Box<str>,
    /// Their relation to it.
    pub(crate) kind: QueryKind,
    /// The datacenter.
    pub(crate) datacenter: Datacenter,
    /// Filter of them, in the catalog's own words.
    pub(crate) filter: Option<Box<str>>,
}

/// Relation of instances to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum QueryKind {
    /// Its instances.
    Service,
    /// Instances that speak Connect's protocol for it.
    Connect,
    /// The mesh gateways of all datacenters, as the own one knows them.
    MeshGateways,
}

impl Query {
    /// The mesh gateways of all datacenters.
    pub(crate) fn mesh_gateways() -> Self {
        Self {
            service: MESH_GATEWAYS.into(),
            kind: QueryKind::MeshGateways,
            datacenter: Datacenter::Own,
            filter: None,
        }
    }

    /// The gateways of ours in a datacenter.
    pub(crate) fn gateways(datacenter: Datacenter) -> Self {
        Self {
            service: GATEWAYS.into(),
            kind: QueryKind::Service,
            datacenter,
            filter: None,
        }
    }
}

/// Queries that a tier of a frontend needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TierQueries {
    /// The service's instances there.
    pub(crate) instances: Query,
    /// Gateways to them, if connections do not go to themselves.
    pub(crate) gateways: Option<Query>,
}

impl TierQueries {
    /// Of this tier of this frontend.
    pub(crate) fn of(frontend: &Frontend, tier: &Tier) -> Self {
        let Tier {
            datacenter,
            service,
            filter,
            only_passing: _,
        } = tier;
        Self {
            instances: Query {
                service: service.clone(),
                kind: if frontend.connect {
                    QueryKind::Connect
                } else {
                    QueryKind::Service
                },
                datacenter: datacenter.clone(),
                filter: filter.clone(),
            },
            gateways: match (datacenter, frontend.via) {
                (Datacenter::Own, _) | (_, Via::Direct) => None,
                (other, Via::Gateway) => Some(Query::gateways(other.clone())),
                (Datacenter::Other(_), Via::Mesh) => Some(Query::mesh_gateways()),
            },
        }
    }

    /// Both.
    pub(crate) fn all(self) -> impl Iterator<Item = Query> {
        let Self {
            instances,
            gateways,
        } = self;
        std::iter::once(instances).chain(gateways)
    }
}
