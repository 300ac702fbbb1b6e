//! All routes, ServiceProfiles, TrafficSplits and grants that are known, and which services a change
//! concerns.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use shunt_model::{Protocol, ServiceId};

use crate::{
    objects::{
        custom::CustomKind, route::Route, service_profile::ServiceProfile,
        traffic_split::TrafficSplit,
    },
    routes::{change::RouteChange, claims::Claims, grants::Grants},
    watch::step::Step,
};

/// A kind of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RouteKind {
    /// TCPRoute.
    Tcp,
    /// UDPRoute.
    Udp,
}

impl RouteKind {
    /// Both of them.
    pub(crate) const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// The name as objects have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCPRoute",
            Self::Udp => "UDPRoute",
        }
    }

    /// Of which ports they are.
    pub(super) const fn protocol(self) -> Protocol {
        match self {
            Self::Tcp => Protocol::Tcp,
            Self::Udp => Protocol::Udp,
        }
    }
}

/// All that is known of routes.
#[derive(Debug, Default)]
pub(crate) struct Book {
    tcp: Claims<Route>,
    udp: Claims<Route>,
    service_profiles: Claims<ServiceProfile>,
    pub(super) traffic_splits: Claims<TrafficSplit>,
    pub(super) grants: Grants,
    /// The settings for proxies of each service that has a ServiceProfile, as JSON. They are made when a profile
    /// changes, which is seldom: endpoints change more often, and a profile may be long.
    pub(super) proxy_settings: HashMap<ServiceId, Arc<str>>,
    /// Suffix of the names of services, which their ServiceProfiles have.
    cluster_domain: Box<str>,
}

impl Book {
    /// Returns a book of a cluster with this domain, without any objects.
    pub(crate) fn of_cluster(domain: &str) -> Self {
        Self {
            cluster_domain: domain.into(),
            ..Self::default()
        }
    }

    /// The ServiceProfile of the service: the one whose name is exactly the service's name in the cluster's DNS. A
    /// profile of another domain is for another cluster.
    pub(super) fn service_profile(&self, service: &ServiceId) -> Option<&ServiceProfile> {
        let mut profiles = self.profiles_of(service);
        profiles.find(|profile| profile.id.namespace == service.namespace)
    }

    /// The ServiceProfiles of the service, of any namespace.
    pub(super) fn profiles_of(&self, service: &ServiceId) -> impl Iterator<Item = &ServiceProfile> {
        let name = self.name_of(service);
        let profiles = self.service_profiles.of(service).iter();
        let named = profiles.filter(move |profile| *profile.id.name == *name);
        named.map(|profile| &**profile)
    }

    /// The name of a service in the cluster's DNS.
    pub(super) fn name_of(&self, service: &ServiceId) -> String {
        let ServiceId { namespace, name } = service;
        let domain = &self.cluster_domain;
        format!("{name}.{namespace}.svc.{domain}")
    }

    /// Takes note of the news, and returns the services whose splits it concerns.
    pub(crate) fn take(&mut self, change: RouteChange) -> BTreeSet<ServiceId> {
        match change {
            RouteChange::Definition(_) => BTreeSet::new(),
            RouteChange::TcpRoute(step) => self.tcp.take(step),
            RouteChange::UdpRoute(step) => self.udp.take(step),
            RouteChange::TrafficSplit(step) => self.traffic_splits.take(step),
            RouteChange::ServiceProfile(step) => {
                let concerned = self.service_profiles.take(step);
                self.set_proxy_settings(&concerned);
                concerned
            }
            RouteChange::ReferenceGrant(step) => {
                let namespaces = self.grants.take(step);
                self.referring_to(&namespaces)
            }
        }
    }

    /// The cluster does not define this kind any more, so it has no objects of it. Returns the services
    /// that this concerns.
    pub(crate) fn forget(&mut self, kind: CustomKind) -> BTreeSet<ServiceId> {
        self.take(match kind {
            CustomKind::ExternalWorkload
            | CustomKind::LinkerdExternalWorkload
            | CustomKind::Server => {
                return BTreeSet::new();
            }
            CustomKind::TcpRoute => RouteChange::TcpRoute(Step::listed(Vec::new())),
            CustomKind::UdpRoute => RouteChange::UdpRoute(Step::listed(Vec::new())),
            CustomKind::ReferenceGrant => RouteChange::ReferenceGrant(Step::listed(Vec::new())),
            CustomKind::TrafficSplit => RouteChange::TrafficSplit(Step::listed(Vec::new())),
            CustomKind::ServiceProfile => RouteChange::ServiceProfile(Step::listed(Vec::new())),
        })
    }

    /// The routes of this kind, by name.
    pub(crate) fn routes(&self, kind: RouteKind) -> impl Iterator<Item = &Arc<Route>> {
        self.claims(kind).all()
    }

    pub(super) const fn claims(&self, kind: RouteKind) -> &Claims<Route> {
        match kind {
            RouteKind::Tcp => &self.tcp,
            RouteKind::Udp => &self.udp,
        }
    }

    /// The parents of routes of other namespaces that have a backend in one of these.
    fn referring_to(&self, namespaces: &BTreeSet<Box<str>>) -> BTreeSet<ServiceId> {
        let mut concerned = BTreeSet::new();
        for route in self.tcp.all().chain(self.udp.all()) {
            let own = &route.id.namespace;
            let mut others = (route.rules.iter().flatten())
                .filter_map(|backend| backend.namespace.as_ref())
                .filter(|namespace| *namespace != own);
            if others.any(|namespace| namespaces.contains(namespace)) {
                let parents = route.parents.iter().map(|parent| parent.service(own));
                concerned.extend(parents);
            }
        }
        concerned
    }
}
