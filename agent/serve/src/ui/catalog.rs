//! The services as the page lists them: each with a number that it keeps, and sent again only when it is
//! another than before.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use serde_json::{Value, json};
use shunt_model::{BackendSet, Frontend, FrontendKey, FrontendKind, ServiceId};

/// Number of services that are gone and remembered. A client that has not asked for longer gets all anew.
const GONE: usize = 4096;

/// All services.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// Counts the times that it was read.
    revision: u64,
    /// Up to which revision it is unknown what has gone.
    forgotten: u64,
    next: u32,
    services: BTreeMap<Arc<ServiceId>, Listed>,
    /// Times at which they went, the first first.
    gone: VecDeque<(u64, u32)>,
    owners: HashMap<Place, Arc<ServiceId>>,
}

/// Place of a frontend: its address, port and protocol's number.
pub(super) type Place = (IpAddr, u16, u8);

/// A service as it is listed.
#[derive(Debug)]
pub(super) struct Listed {
    /// Its number.
    pub(super) number: u32,
    /// Since which revision it is like this.
    since: u64,
    row: Row,
    /// Its frontends, sorted by key.
    pub(super) frontends: Vec<(FrontendKey, Frontend)>,
}

/// Columns that are listed of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    first: String,
    frontends: usize,
    usable: usize,
    backends: usize,
}

impl Catalog {
    /// Makes it what these frontends are.
    pub(super) fn update(&mut self, frontends: Vec<(FrontendKey, Frontend)>) {
        self.revision += 1;
        self.owners.clear();
        let mut found = BTreeMap::<Arc<ServiceId>, Vec<(FrontendKey, Frontend)>>::new();
        for (key, frontend) in frontends {
            let service = Arc::clone(&frontend.backends.service);
            let place = (key.address, key.port, key.protocol.number());
            self.owners.insert(place, Arc::clone(&service));
            found.entry(service).or_default().push((key, frontend));
        }
        let Self {
            revision,
            services,
            gone,
            ..
        } = self;
        services.retain(|service, listed| {
            let stays = found.contains_key(service);
            if !stays {
                gone.push_back((*revision, listed.number));
            }
            stays
        });
        while self.gone.len() > GONE {
            if let Some((revision, _)) = self.gone.pop_front() {
                self.forgotten = revision;
            }
        }
        for (service, frontends) in found {
            let row = Row::of(&frontends);
            match self.services.get_mut(&service) {
                Some(listed) => {
                    if listed.row != row {
                        listed.since = self.revision;
                        listed.row = row;
                    }
                    listed.frontends = frontends;
                }
                None => {
                    let listed = Listed {
                        number: self.next,
                        since: self.revision,
                        row,
                        frontends,
                    };
                    self.next += 1;
                    self.services.insert(service, listed);
                }
            }
        }
    }

    /// A service.
    pub(super) fn get(&self, service: &ServiceId) -> Option<&Listed> {
        self.services.get(service)
    }

    /// All of them, sorted by name.
    pub(super) fn services(&self) -> impl Iterator<Item = (&Arc<ServiceId>, &Listed)> {
        self.services.iter()
    }

    /// Returns the owner of this frontend.
    pub(super) fn owner(&self, place: Place) -> Option<&Arc<ServiceId>> {
        self.owners.get(&place)
    }

    /// Returns what is new since this revision; everything if that is not known, which is marked.
    pub(super) fn since(&self, revision: Option<u64>) -> Value {
        let known = revision.filter(|known| (self.forgotten..=self.revision).contains(known));
        let is_new = |listed: &Listed| known.is_none_or(|known| listed.since > known);
        let services = self.services.iter().filter(|(_, listed)| is_new(listed));
        let gone = self.gone.iter().filter_map(|(since, number)| {
            known.is_some_and(|known| *since > known).then_some(*number)
        });
        json!({
            "revision": self.revision,
            "all": known.is_none(),
            "services": services
                .map(|(service, listed)| listed.row.shown(listed.number, service))
                .collect::<Vec<_>>(),
            "gone": gone.collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn of(frontends: &[(FrontendKey, Frontend)]) -> Self {
        let inside = frontends
            .iter()
            .find(|(_, frontend)| frontend.kind == FrontendKind::ClusterIp);
        let first = inside.or_else(|| frontends.first());
        let backends = backends(frontends);
        Self {
            first: first.map(|(key, _)| key.to_string()).unwrap_or_default(),
            frontends: frontends.len(),
            usable: backends
                .values()
                .filter(|backend| backend.share > 0.0)
                .count(),
            backends: backends.len(),
        }
    }

    fn shown(&self, number: u32, service: &ServiceId) -> Value {
        let Self {
            first,
            frontends,
            usable,
            backends,
        } = self;
        json!([
            number,
            service.to_string(),
            first,
            frontends,
            usable,
            backends
        ])
    }
}

/// A backend of a service, whatever of its ports it serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ServiceBackend {
    /// Its share of the new connections of a set that it is in, the largest of these.
    pub(super) share: f64,
    /// True if it runs on this node.
    pub(super) local: bool,
}

/// The backends of a service.
pub(super) fn backends(
    frontends: &[(FrontendKey, Frontend)],
) -> BTreeMap<SocketAddr, ServiceBackend> {
    let mut all = BTreeMap::<SocketAddr, ServiceBackend>::new();
    let mut last: Option<*const BackendSet> = None;
    for (_, frontend) in frontends {
        let set = &frontend.backends;
        // Many frontends have the same one.
        let same = Arc::as_ptr(set);
        if last.replace(same) == Some(same) {
            continue;
        }
        let shares = set.shares();
        let sum: f64 = shares.iter().map(|share| f64::from(*share)).sum();
        for (backend, share) in set.backends.iter().zip(shares) {
            let share = f64::from(share) / sum.max(1.0);
            let at = SocketAddr::new(backend.ip, backend.port);
            let found = all.entry(at).or_insert(ServiceBackend {
                share,
                local: backend.local,
            });
            found.share = found.share.max(share);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use shunt_model::{
        Backend, Clients, Forwarding, Masquerade, PortPart, Protocol, Refusal, Scopes,
        TrafficPolicy,
    };

    use super::*;

    fn frontend(name: &str, last: u8, weights: &[u32]) -> (FrontendKey, Frontend) {
        let key = FrontendKey {
            address: [10, 96, 0, last].into(),
            port: 80,
            protocol: Protocol::Tcp,
        };
        let backends = weights.iter().zip(1..).map(|(weight, last)| Backend {
            ip: [10, 1, 1, last].into(),
            port: 8080,
            weight: *weight,
            local: true,
            scopes: Scopes::default_of(true),
        });
        let frontend = Frontend {
            kind: FrontendKind::ClusterIp,
            policy: TrafficPolicy::Cluster,
            clients: Clients::Everyone,
            forwarding: Forwarding::Snat,
            masquerade: Masquerade::Off,
            refusal: Refusal::Reject,
            backends: Arc::new(BackendSet {
                service: Arc::new(ServiceId::new("default", name)),
                port: "http".into(),
                affinity_timeout: 0,
                maglev: None,
                part: PortPart::Main,
                split: None,
                backends: backends.collect(),
            }),
            this_node: None,
            with_draining: None,
            sources: Arc::from([]),
        };
        (key, frontend)
    }

    #[test]
    fn only_what_is_another_than_before_is_told_again() {
        let mut catalog = Catalog::default();
        catalog.update(vec![frontend("a", 1, &[1]), frontend("b", 2, &[1])]);
        let all = catalog.since(None);
        assert_eq!(
            all["services"],
            json!([
                [0, "default/a", "10.96.0.1:80/TCP", 1, 1, 1],
                [1, "default/b", "10.96.0.2:80/TCP", 1, 1, 1]
            ])
        );
        assert_eq!((&all["all"], &all["revision"]), (&json!(true), &json!(1)));

        catalog.update(vec![frontend("b", 2, &[1, 0]), frontend("c", 3, &[])]);
        let news = catalog.since(Some(1));
        assert_eq!(
            news["services"],
            json!([
                [1, "default/b", "10.96.0.2:80/TCP", 1, 1, 2],
                [2, "default/c", "10.96.0.3:80/TCP", 1, 0, 0]
            ])
        );
        assert_eq!((&news["all"], &news["gone"]), (&json!(false), &json!([0])));
        let nothing = catalog.since(Some(2));
        assert_eq!(
            (&nothing["services"], &nothing["gone"]),
            (&json!([]), &json!([]))
        );
        // For example of another agent.
        assert_eq!(catalog.since(Some(99))["all"], true);
    }

    #[test]
    fn who_was_away_for_too_long_is_told_all() {
        let mut catalog = Catalog::default();
        let many = (0..=GONE).map(|number| frontend(&format!("web-{number}"), 1, &[1]));
        catalog.update(many.collect());
        catalog.update(Vec::new());
        assert_eq!(catalog.since(Some(1))["all"], true);
        assert_eq!(catalog.since(Some(2))["all"], false);
    }

    #[test]
    fn a_backends_share_is_by_weight() {
        let backends = backends(&[frontend("a", 1, &[1, 3])]);
        let shares: Vec<_> = backends.values().map(|backend| backend.share).collect();
        assert_eq!(shares, [0.25, 0.75]);
    }
}
