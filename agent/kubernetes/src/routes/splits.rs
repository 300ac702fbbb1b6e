//! The splits of a Service's ports.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::Arc,
};

use shunt_model::{Protocol, Service as ModelService, Split, SplitFrontends, SplitMode};

use crate::{
    objects::{
        route::{ParentRef, Route},
        service::Service,
    },
    routes::{
        attach::{followed, is_served},
        backends::backend,
        book::{Book, RouteKind},
    },
    translate::problem::Problem,
};

/// The routes that have ports of a Service, by number and protocol.
pub(super) type RoutesOf<'a> = HashMap<(u16, Protocol), (RouteKind, &'a Route)>;

impl Book {
    /// Sets the splits of the ports of `model`, which is the translation of `service`, and in `model` the settings of
    /// requests for proxies. A route has a port before a ServiceProfile or a TrafficSplit has it, whichever is older:
    /// it names the port, or its protocol at least.
    pub(crate) fn split(
        &self,
        service: &Service,
        model: &mut ModelService,
        problems: &mut Vec<Problem>,
    ) {
        let mesh = self.mesh_split(&service.id, problems);
        model.profile = self.settings(&service.id);
        let routes = self.routes_of(service);
        // Many ports may have one route.
        let mut by_route: HashMap<*const Route, Arc<Split>> = HashMap::new();
        for port in &mut model.ports {
            port.split = match routes.get(&(port.port, port.protocol)) {
                Some(&(kind, route)) => {
                    let split = by_route.entry(route);
                    let split = split.or_insert_with(|| Arc::new(self.by_route(kind, route)));
                    Some(Arc::clone(split))
                }
                None => {
                    let mesh = mesh.as_ref();
                    mesh.map(|split| Arc::new(split.of_port(port.port)))
                }
            };
        }
    }

    /// The routes that have ports of the Service: of those that are for a port, the oldest one has it.
    pub(super) fn routes_of(&self, service: &Service) -> RoutesOf<'_> {
        let mut found = HashMap::new();
        if !is_served(service) {
            return found;
        }
        for kind in RouteKind::ALL {
            let mut free = FreePorts::of(service, kind.protocol());
            for route in self.claims(kind).of(&service.id) {
                if free.numbers.is_empty() {
                    break;
                }
                if followed(route).is_err() {
                    continue;
                }
                let parents = route.parents.iter();
                let parents =
                    parents.filter(|parent| parent.service(&route.id.namespace) == *service.id);
                for number in parents.flat_map(|parent| free.take(parent)) {
                    found.insert((number, kind.protocol()), (kind, &**route));
                }
            }
        }
        found
    }

    fn by_route(&self, kind: RouteKind, route: &Route) -> Split {
        let backends = route.rules.iter().flatten();
        Split {
            mode: SplitMode::Strict,
            frontends: SplitFrontends::ClusterIp,
            backends: backends
                .map(|reference| backend(kind, route, reference, &self.grants))
                .collect(),
        }
    }
}

/// The ports of a protocol that no route has yet.
struct FreePorts<'a> {
    /// By number, with their names.
    numbers: BTreeMap<u16, &'a str>,
    /// The numbers of all, by name.
    names: HashMap<&'a str, Vec<u16>>,
}

impl<'a> FreePorts<'a> {
    fn of(service: &'a Service, protocol: Protocol) -> Self {
        let (mut numbers, mut names) = (BTreeMap::new(), HashMap::<_, Vec<_>>::new());
        let ports = service.ports.iter();
        for port in ports.filter(|port| port.protocol == Some(protocol)) {
            numbers.insert(port.port, &*port.name);
            names.entry(&*port.name).or_default().push(port.port);
        }
        Self { numbers, names }
    }

    /// Takes those that a route is for as the child of this parent.
    fn take(&mut self, parent: &ParentRef) -> Vec<u16> {
        let Self { numbers, names } = self;
        let section = parent.section.as_deref();
        match (parent.port, section) {
            (Some(number), section) => {
                let number = u16::try_from(number).ok();
                let is_named = |name: &str| section.is_none_or(|section| *section == *name);
                let number = number.filter(|number| {
                    let name = numbers.get(number);
                    name.is_some_and(|name| is_named(name))
                });
                if let Some(number) = number {
                    numbers.remove(&number);
                }
                number.into_iter().collect()
            }
            (None, Some(name)) => {
                let mut named = names.remove(name).unwrap_or_default();
                named.retain(|number| numbers.remove(number).is_some());
                named
            }
            (None, None) => mem::take(numbers).into_keys().collect(),
        }
    }
}
