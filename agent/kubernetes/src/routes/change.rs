//! News of routes, and the watches for it.

use std::collections::BTreeSet;

use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    objects::{
        custom::{CustomKind, Definition},
        reference_grant::ReferenceGrant,
        route::Route,
        service_profile::ServiceProfile,
        traffic_split::TrafficSplit,
    },
    watch::{
        client::Access,
        defined::watch_while_defined,
        kind::{
            Definitions, ReferenceGrants, Selectors, ServiceProfiles, TcpRoutes, TrafficSplits,
            UdpRoutes,
        },
        step::Step,
        watcher::Watcher,
    },
};

/// News of routes, and of what they depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RouteChange {
    /// Kinds that the cluster defines.
    Definition(Step<Definition>),
    /// TCPRoutes.
    TcpRoute(Step<Route>),
    /// UDPRoutes.
    UdpRoute(Step<Route>),
    /// ReferenceGrants.
    ReferenceGrant(Step<ReferenceGrant>),
    /// TrafficSplits.
    TrafficSplit(Step<TrafficSplit>),
    /// ServiceProfiles.
    ServiceProfile(Step<ServiceProfile>),
}

/// Begins to watch which kinds the cluster defines, and the routes and grants of those that are
/// `defined`.
pub(crate) fn watch_routes<M: From<RouteChange> + Send + 'static>(
    watchers: &mut JoinSet<()>,
    access: &Access,
    steps: &mpsc::Sender<M>,
    defined: &watch::Receiver<BTreeSet<CustomKind>>,
) {
    let definitions = Watcher::<Definitions, M>::new(
        access.clone(),
        Selectors::default(),
        steps.clone(),
        |step| RouteChange::Definition(step).into(),
    );
    watchers.spawn(definitions.run());
    watchers.spawn(watch_while_defined::<TcpRoutes, M>(
        CustomKind::TcpRoute,
        access.clone(),
        steps.clone(),
        |step| RouteChange::TcpRoute(step).into(),
        defined.clone(),
    ));
    watchers.spawn(watch_while_defined::<UdpRoutes, M>(
        CustomKind::UdpRoute,
        access.clone(),
        steps.clone(),
        |step| RouteChange::UdpRoute(step).into(),
        defined.clone(),
    ));
    watchers.spawn(watch_while_defined::<ReferenceGrants, M>(
        CustomKind::ReferenceGrant,
        access.clone(),
        steps.clone(),
        |step| RouteChange::ReferenceGrant(step).into(),
        defined.clone(),
    ));
}

/// Begins to watch TrafficSplits and ServiceProfiles, those of them that are `defined`.
pub(crate) fn watch_meshes<M: From<RouteChange> + Send + 'static>(
    watchers: &mut JoinSet<()>,
    access: &Access,
    steps: &mpsc::Sender<M>,
    defined: &watch::Receiver<BTreeSet<CustomKind>>,
) {
    watchers.spawn(watch_while_defined::<TrafficSplits, M>(
        CustomKind::TrafficSplit,
        access.clone(),
        steps.clone(),
        |step| RouteChange::TrafficSplit(step).into(),
        defined.clone(),
    ));
    watchers.spawn(watch_while_defined::<ServiceProfiles, M>(
        CustomKind::ServiceProfile,
        access.clone(),
        steps.clone(),
        |step| RouteChange::ServiceProfile(step).into(),
        defined.clone(),
    ));
}
