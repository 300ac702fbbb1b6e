//! Known state of the cluster, and what follows from it for each route.

use std::{
    collections::{BTreeSet, HashMap},
    slice,
};

use serde_json::{Value, json};
use shunt_model::ServiceId;

use crate::{
    links::{CustomLinks, Link},
    objects::{
        custom::CustomKind,
        route::{ParentRef, Route},
        service::Service,
    },
    routes::{
        book::{Book, RouteKind},
        change::RouteChange,
        conditions::Conditions,
        verdict::Verdict,
    },
    watch::step::Step,
};

/// A change in the cluster.
#[derive(Debug)]
pub(super) enum Change {
    Service(Step<Service>),
    Route(RouteChange),
}

impl From<RouteChange> for Change {
    fn from(change: RouteChange) -> Self {
        Self::Route(change)
    }
}

impl Change {
    /// Returns the routes that it shows as they are now.
    pub(super) fn routes(&self) -> impl Iterator<Item = (RouteKind, &Route)> {
        let (kind, step) = match self {
            Self::Route(RouteChange::TcpRoute(step)) => (RouteKind::Tcp, Some(step)),
            Self::Route(RouteChange::UdpRoute(step)) => (RouteKind::Udp, Some(step)),
            Self::Route(_) | Self::Service(_) => (RouteKind::Tcp, None),
        };
        let routes = match step {
            Some(Step::Listed(list)) => &*list.objects,
            Some(Step::Applied(route)) => slice::from_ref(route),
            Some(_) | None => &[],
        };
        routes.iter().map(move |route| (kind, route))
    }
}

/// The kinds that it depends on: a route has a port before a mesh splits it.
const KINDS: [CustomKind; 3] = [
    CustomKind::TcpRoute,
    CustomKind::UdpRoute,
    CustomKind::ReferenceGrant,
];

/// Everything that the status of routes depends on.
#[derive(Debug)]
pub(super) struct Observed {
    book: Book,
    services: HashMap<ServiceId, Service>,
    services_link: Link,
    links: CustomLinks,
}

/// Content that the status of a route is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) kind: RouteKind,
    pub(super) id: ServiceId,
    /// The uid, which no other object has or had.
    pub(super) uid: Box<str>,
    /// The group and version of the route.
    pub(super) api_version: Box<str>,
    /// The generation of the route that it is about.
    pub(super) generation: i64,
    /// For each Service among its parents.
    pub(super) parents: Vec<ParentReport>,
}

/// Content that the status of a route is to have for one parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParentReport {
    /// The reference as the route has it.
    pub(super) parent: Value,
    /// The condition `Accepted`.
    pub(super) accepted: Verdict,
    /// The condition `ResolvedRefs`.
    pub(super) resolved: Verdict,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            book: Book::default(),
            services: HashMap::new(),
            services_link: Link::default(),
            links: CustomLinks::of(&KINDS),
        }
    }
}

impl Observed {
    /// Takes note of what is new.
    pub(super) fn take(&mut self, change: Change) {
        match change {
            Change::Service(step) => {
                self.services_link.follow("Services", &step);
                self.take_service(step);
            }
            Change::Route(change) => self.take_route(change),
        }
    }

    fn take_service(&mut self, step: Step<Service>) {
        let entry = |service: Service| ((*service.id).clone(), service);
        match step {
            Step::Listed(list) => {
                self.services
                    .retain(|id, _| list.keeps(&id.namespace, &id.name));
                self.services.extend(list.objects.into_iter().map(entry));
            }
            Step::Applied(service) => self.services.extend([entry(service)]),
            Step::Deleted(service) => {
                self.services.remove(&*service.id);
            }
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
    }

    fn take_route(&mut self, change: RouteChange) {
        let links = &mut self.links;
        let is_followed = match &change {
            RouteChange::Definition(step) => {
                for kind in links.define(step) {
                    self.book.forget(kind);
                }
                return;
            }
            RouteChange::TcpRoute(step) => links.follow(CustomKind::TcpRoute, step),
            RouteChange::UdpRoute(step) => links.follow(CustomKind::UdpRoute, step),
            RouteChange::ReferenceGrant(step) => links.follow(CustomKind::ReferenceGrant, step),
            RouteChange::TrafficSplit(step) => links.follow(CustomKind::TrafficSplit, step),
            RouteChange::ServiceProfile(step) => links.follow(CustomKind::ServiceProfile, step),
        };
        if is_followed {
            self.book.take(change);
        }
    }

    /// The kinds that the cluster defines, in order.
    pub(super) fn defined(&self) -> BTreeSet<CustomKind> {
        self.links.defined().collect()
    }

    /// Returns whether all first lists are there.
    pub(super) fn is_complete(&self) -> bool {
        self.services_link.is_complete && self.links.are_complete()
    }

    /// Returns the content that each route's status is to have.
    pub(super) fn reports(&self) -> impl Iterator<Item = Report> {
        let kinds = RouteKind::ALL.into_iter();
        kinds.flat_map(move |kind| {
            let routes = self.book.routes(kind);
            routes.map(move |route| self.report(kind, route))
        })
    }

    /// Returns the number of routes of this kind.
    pub(super) fn count(&self, kind: RouteKind) -> usize {
        self.book.routes(kind).count()
    }

    fn report(&self, kind: RouteKind, route: &Route) -> Report {
        let conditions = (self.book).conditions(kind, route, |id| self.services.get(id));
        let parents = conditions.into_iter().map(|conditions| {
            let Conditions {
                parent,
                accepted,
                resolved,
            } = conditions;
            ParentReport {
                parent: written(parent),
                accepted,
                resolved,
            }
        });
        Report {
            kind,
            id: (*route.id).clone(),
            uid: route.uid.clone(),
            api_version: route.api_version.clone(),
            generation: route.generation,
            parents: parents.collect(),
        }
    }
}

/// The reference as a status has it: with what is given, and nothing else.
fn written(parent: &ParentRef) -> Value {
    let ParentRef {
        group,
        namespace,
        name,
        section,
        port,
    } = parent;
    let mut written = json!({ "group": group, "kind": "Service", "name": name });
    if let Some(namespace) = namespace {
        written["namespace"] = json!(namespace);
    }
    if let Some(section) = section {
        written["sectionName"] = json!(section);
    }
    if let Some(port) = port {
        written["port"] = json!(port);
    }
    written
}
