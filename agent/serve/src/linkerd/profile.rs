//! The profile of a destination.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use linkerd2_proxy_api::destination::{DestinationProfile, RetryBudget, WeightedAddr};
use shunt_model::{Answer, Phase, ServiceTarget, TargetKind, Who, Workload};

use crate::linkerd::{
    addresses::{declared, is_at, is_instance, own_endpoints},
    authority::{Destination, Name},
    metadata::{bare, endpoint, namespace, of_workload, service_ref},
    overrides::overrides,
    requests::Requests,
    settings::LinkerdSettings,
    shared::Made,
};

/// The profile of what was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Profile(pub(super) DestinationProfile);

impl Made for Profile {
    /// Clients of one namespace have the same profiles.
    type Question = (Destination, Option<Box<str>>);
    type Settings = Arc<LinkerdSettings>;
    type Memory = Read;
    type Message = DestinationProfile;

    fn make(
        (destination, namespace): &(Destination, Option<Box<str>>),
        settings: &Arc<LinkerdSettings>,
        answer: &Answer,
        read: &mut Read,
    ) -> Self {
        let mut read = Reading {
            namespace: namespace.as_deref(),
            read,
        };
        Self(match destination {
            Destination::Address { ip, port } => {
                let address = SocketAddr::new(*ip, port.get());
                at_address(address, answer, settings, &mut read)
            }
            Destination::Name(name) => match &name.instance {
                Some(instance) => of_instance(instance, name, answer, settings),
                None => of_name(name, answer, settings, &mut read),
            },
        })
    }

    fn messages(old: Option<&Self>, new: &Self) -> Vec<DestinationProfile> {
        let Self(profile) = new;
        let is_new = old != Some(new);
        is_new.then(|| profile.clone()).into_iter().collect()
    }
}

/// The settings of requests that were read last. Endpoints come and go more often than these change.
#[derive(Debug, Default)]
pub(super) struct Read {
    json: Option<Arc<str>>,
    requests: Requests,
    /// Number of readings.
    #[cfg(test)]
    readings: usize,
}

/// The settings that were read last, as a client of a namespace has them.
struct Reading<'a> {
    namespace: Option<&'a str>,
    read: &'a mut Read,
}

impl Read {
    fn of(&mut self, json: Option<&Arc<str>>) -> &Requests {
        if self.json.as_ref() != json {
            #[cfg(test)]
            {
                self.readings += 1;
            }
            self.requests = json.map(|json| Requests::read(json)).unwrap_or_default();
            self.json = json.cloned();
        }
        &self.requests
    }
}

/// Returns the profile of an address: of the service that it leads to, or of what answers there itself.
fn at_address(
    address: SocketAddr,
    answer: &Answer,
    settings: &LinkerdSettings,
    read: &mut Reading<'_>,
) -> DestinationProfile {
    let mut targets = answer.targets.iter();
    let Some(target) = targets.find(|target| target.in_use) else {
        return unknown(address.port(), settings);
    };
    match &target.who {
        Who::Service(own) => of_service(target.kind, own, settings, read),
        // Nothing is known of the port, and nothing answers there.
        Who::UndefinedPort { .. } => DestinationProfile::default(),
        Who::Workload(workload) if workload.phase != Phase::Pending => of_endpoint(
            of_workload(workload, address, settings),
            Some(workload),
            address,
            settings,
        ),
        Who::Workload(_) | Who::Node { .. } | Who::HealthCheck { .. } => {
            of_endpoint(bare(address), None, address, settings)
        }
    }
}

fn of_name(
    name: &Name,
    answer: &Answer,
    settings: &LinkerdSettings,
    read: &mut Reading<'_>,
) -> DestinationProfile {
    match declared(name, answer) {
        Some((kind, own)) => of_service(kind, own, settings, read),
        None if answer.targets.is_empty() => unknown(name.port.get(), settings),
        None => DestinationProfile::default(),
    }
}

/// The endpoint with that hostname among the service's, whatever it can do at present. Without one
/// nothing is known.
fn of_instance(
    instance: &str,
    name: &Name,
    answer: &Answer,
    settings: &LinkerdSettings,
) -> DestinationProfile {
    let port = name.port.get();
    let is_declared = declared(name, answer).is_some();
    // They are sorted: of two families the first is IPv4.
    let found = own_endpoints(answer).find(|endpoint| {
        (!is_declared || is_at(endpoint, port)) && is_instance(endpoint, instance, answer)
    });
    let Some(found) = found else {
        return unknown(port, settings);
    };
    let port = if is_declared { found.key.port } else { port };
    let address = SocketAddr::new(found.key.ip, port);
    let workload = found.workload.as_deref();
    of_endpoint(
        endpoint(found, address, settings),
        workload,
        address,
        settings,
    )
}

fn of_service(
    kind: TargetKind,
    target: &ServiceTarget,
    settings: &LinkerdSettings,
    Reading { namespace, read }: &mut Reading<'_>,
) -> DestinationProfile {
    let ServiceTarget {
        service,
        port,
        opaque_ports,
        profile,
        ..
    } = target;
    let all = read.of(profile.as_ref());
    let of_client = namespace.and_then(|namespace| Some((namespace, all.of_client(namespace)?)));
    let (owner, requests) = of_client.unwrap_or((&service.namespace, all));
    let mut dst_overrides = requests.overrides(*port, settings);
    if dst_overrides.is_empty() {
        dst_overrides = overrides(kind, target, settings);
    }
    DestinationProfile {
        fully_qualified_name: settings.name_of(service),
        routes: requests.routes(),
        opaque_protocol: settings.is_opaque(opaque_ports.as_deref(), *port),
        dst_overrides,
        parent_ref: Some(service_ref(service, *port)),
        profile_ref: requests.reference(owner),
        retry_budget: Some(requests.retry_budget().unwrap_or_else(retry_budget)),
        ..DestinationProfile::default()
    }
}

/// Returns the profile of what answers at an address itself.
fn of_endpoint(
    mut found: WeightedAddr,
    workload: Option<&Workload>,
    address: SocketAddr,
    settings: &LinkerdSettings,
) -> DestinationProfile {
    let own = workload.map(|workload| namespace(&workload.id.namespace));
    found.metric_labels.extend(own);
    DestinationProfile {
        opaque_protocol: settings.is_opaque_at(workload, address.port()),
        retry_budget: Some(retry_budget()),
        endpoint: Some(found),
        ..DestinationProfile::default()
    }
}

/// An unknown address has neither a name nor an endpoint.
fn unknown(port: u16, settings: &LinkerdSettings) -> DestinationProfile {
    DestinationProfile {
        opaque_protocol: settings.is_opaque_at(None, port),
        retry_budget: Some(retry_budget()),
        ..DestinationProfile::default()
    }
}

/// Returns linkerd's own, for a profile without another.
fn retry_budget() -> RetryBudget {
    RetryBudget {
        retry_ratio: 0.2,
        min_retries_per_second: 10,
        ttl: Duration::from_secs(10).try_into().ok(),
    }
}

#[cfg(test)]
mod tests {
    use shunt_model::{Protocol, Query, ServiceId, Target, TrafficPolicy};

    use super::*;

    /// The answer for a service with this profile.
    fn of_profile(profile: &str) -> Answer {
        let mut answer = answer("1s", 0);
        let Who::Service(own) = &mut answer.targets[0].who else {
            panic!("a service: {answer:?}");
        };
        own.profile = Some(profile.into());
        answer
    }

    #[test]
    fn a_client_has_the_profile_of_its_own_namespace() {
        let destination = Destination::of("web.shop.svc.cluster.local:80", "cluster.local");
        let destination = destination.unwrap();
        let settings = Arc::new(LinkerdSettings::of_domain("cluster.local"));
        let answer = of_profile(
            r#"{
                "name":"web.shop.svc.cluster.local",
                "routes":[{"name":"own","condition":{"method":"GET"}}],
                "clients":{
                    "b":{
                        "name":"web.shop.svc.cluster.local",
                        "routes":[{"name":"b","condition":{"method":"GET"}}],
                        "retryBudget":{"retryRatio":0.5,"minRetriesPerSecond":3,"ttl":"1s"},
                        "dstOverrides":[
                            {"authority":"v1.b.svc.cluster.local","weight":1000},
                            {"authority":"v2.b.svc.cluster.local:81","weight":500},
                            {"authority":"10.0.0.1:81","weight":500}
                        ]
                    }
                }
            }"#,
        );
        for (namespace, route, owner, retries, split) in [
            (None, "own", "shop", 10, &[][..]),
            (Some("shop"), "own", "shop", 10, &[]),
            (Some("c"), "own", "shop", 10, &[]),
            (
                Some("b"),
                "b",
                "b",
                3,
                &[
                    ("v1.b.svc.cluster.local:80", 1000),
                    ("v2.b.svc.cluster.local:81", 500),
                ],
            ),
        ] {
            let question = (destination.clone(), namespace.map(Into::into));
            let Profile(made) = Profile::make(&question, &settings, &answer, &mut Read::default());
            assert_eq!(made.routes[0].metrics_labels["route"], route);
            let reference = Requests::read(r#"{"name":"web.shop.svc.cluster.local"}"#);
            assert_eq!(
                made.profile_ref,
                reference.reference(owner),
                "{namespace:?}"
            );
            let budget = made.retry_budget.unwrap();
            assert_eq!(budget.min_retries_per_second, retries, "{namespace:?}");
            let overrides = made.dst_overrides.iter();
            let found: Vec<_> = overrides.map(|to| (&*to.authority, to.weight)).collect();
            assert_eq!(found, split, "{namespace:?}");
        }
    }

    /// The answer for a service with this timeout of its route, in a text of its own.
    fn answer(timeout: &str, affinity_timeout: u32) -> Answer {
        let service = Arc::new(ServiceId::new("shop", "web"));
        let profile =
            format!(r#"{{"routes":[{{"condition":{{"method":"GET"}},"timeout":"{timeout}"}}]}}"#);
        let own = ServiceTarget {
            service: Arc::clone(&service),
            port_name: "".into(),
            port: 80,
            protocol: Protocol::Tcp,
            node_port: None,
            cluster_ips: Vec::new(),
            traffic_policy: TrafficPolicy::Cluster,
            internal_traffic_policy: TrafficPolicy::Cluster,
            affinity_timeout,
            opaque_ports: None,
            profile: Some(profile.into()),
            hostnames: None,
            split: None,
            first: None,
            frontend: None,
        };
        Answer {
            query: Query::service(service, None, None),
            targets: vec![Target {
                kind: TargetKind::Service,
                in_use: true,
                who: Who::Service(own),
            }],
            endpoints: Vec::new(),
            member_of: Vec::new(),
        }
    }

    #[test]
    fn a_profile_is_read_when_it_changes() {
        let destination = Destination::of("web.shop.svc.cluster.local:80", "cluster.local");
        let destination = destination.unwrap();
        let settings = Arc::new(LinkerdSettings::of_domain("cluster.local"));
        let question = (destination, None);
        let mut read = Read::default();
        let mut last: Option<Profile> = None;
        for (timeout, flap, readings, messages) in [
            ("1s", 0, 1, 1),
            ("1s", 1, 1, 0),
            ("1s", 2, 1, 0),
            ("2s", 2, 2, 1),
            ("2s", 3, 2, 0),
        ] {
            let answer = answer(timeout, flap);
            let made = Profile::make(&question, &settings, &answer, &mut read);
            assert_eq!(read.readings, readings, "{timeout} {flap}");
            let count = Profile::messages(last.as_ref(), &made).len();
            assert_eq!(count, messages, "{timeout} {flap}");
            assert_eq!(made.0.routes.len(), 1);
            last = Some(made);
        }
    }
}
