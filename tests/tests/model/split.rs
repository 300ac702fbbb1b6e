//! Weighted splits: who has which share of a frontend's connections.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    cluster::{Backend, Endpoint, Policy, Port, Service, ServiceId, State, id_json},
    frontends::{Cluster, Frontend, Kind},
};

/// The sum of all shares: a share of 1 is the least.
const WHOLE: u32 = u32::MAX;

/// Treatment of the share of a backend of the split that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The others have it.
    Available,
    /// It is refused.
    Strict,
    /// There are no shares: the first who can be used has all.
    First,
}

/// The target of a part of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// This port's own backends.
    Service(ServiceId, u16),
    /// The service that has the split, at the split port.
    Own,
    /// An address, of which nothing else is known.
    Address(Endpoint),
    /// No backend, ever.
    Invalid,
}

/// Split of a port's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Split {
    pub mode: Mode,
    /// Only frontends at ClusterIPs do.
    pub cluster_ips_only: bool,
    /// Each with its weight.
    pub parts: Vec<(Target, u32)>,
}

impl Split {
    /// Returns whether a frontend of this kind shares its connections out so.
    pub(crate) fn is_for(&self, kind: Kind) -> bool {
        !self.cluster_ips_only || kind == Kind::ClusterIp
    }

    pub(crate) fn json(&self, id: ServiceId, port: &Port) -> Value {
        let Self {
            mode,
            cluster_ips_only,
            parts,
        } = self;
        let part = |(target, weight): &(Target, u32)| match target {
            Target::Service(id, port) => {
                json!({ "service": id_json(*id), "port": port, "weight": weight })
            }
            Target::Own => {
                json!({ "service": id_json(id), "port": port.port, "weight": weight })
            }
            Target::Address(Endpoint { ip, port }) => {
                json!({ "ip": ip, "port": port, "weight": weight })
            }
            Target::Invalid => json!({ "invalid": "no such kind", "weight": weight }),
        };
        json!({
            "mode": format!("{mode:?}").to_lowercase(),
            "frontends": if *cluster_ips_only { "cluster_ip" } else { "all" },
            "backends": parts.iter().map(part).collect::<Value>(),
        })
    }
}

/// Each endpoint's share of [`WHOLE`] connections to a frontend; `None`: it is not among those of the set.
pub(crate) struct Shares {
    pub of: BTreeMap<Endpoint, Option<u32>>,
    /// The share without an endpoint.
    pub refused: u32,
}

impl Cluster {
    /// The split that the frontend's connections are shared out by.
    pub(super) fn split_of(&self, frontend: &Frontend) -> Option<(&Service, &Port, &Split)> {
        let service = &self.services[&frontend.service];
        let port = &service.ports[frontend.port];
        let split = port.split.as_ref()?;
        split
            .is_for(frontend.kind)
            .then_some((service, port, split))
    }

    /// The weights of the parts, each with who is behind it of the frontend's family.
    pub(super) fn parts(
        &self,
        (service, port, split): (&Service, &Port, &Split),
        is_ipv4: bool,
    ) -> Vec<(u32, Vec<Backend>)> {
        let own = |id: &ServiceId, number: u16| {
            let mut ports = self.services.get(id).into_iter().flat_map(|one| &one.ports);
            let found = ports.find(|one| (one.protocol, one.port) == (port.protocol, number));
            found.map_or_else(Vec::new, |port| port.backends.clone())
        };
        let parts = split.parts.iter().map(|(target, weight)| {
            let mut behind = match target {
                Target::Service(id, number) => own(id, *number),
                Target::Own => own(&service.id, port.port),
                Target::Address(at) => vec![elsewhere(*at)],
                Target::Invalid => Vec::new(),
            };
            behind.retain(|one| one.at.ip.is_ipv4() == is_ipv4 && one.is_listed());
            (*weight, behind)
        });
        parts.collect()
    }

    /// Returns the shares of the connections to a frontend that has this split, in a set.
    pub(super) fn shares(
        &self,
        split: (&Service, &Port, &Split),
        is_ipv4: bool,
        set: Policy,
    ) -> Shares {
        let (service, port, Split { mode, .. }) = split;
        let parts = self.parts(split, is_ipv4);
        let mut of = BTreeMap::<Endpoint, Option<u32>>::new();
        for backend in parts.iter().flat_map(|(_, behind)| behind) {
            let share = of.entry(backend.at).or_default();
            if backend.is_in(set) {
                *share = Some(0);
            }
        }
        // The parts that count, each with the backends that take its connections.
        let counting = parts.iter().map(|(weight, behind)| {
            let all: Vec<&Backend> = behind.iter().collect();
            let able = all.iter().filter(|one| one.is_usable_in(set, &all));
            (u64::from(*weight), able.copied().collect::<Vec<_>>())
        });
        let is_usable = |(weight, able): &(u64, Vec<_>)| *weight > 0 && !able.is_empty();
        let counting: Vec<_> = match mode {
            Mode::Strict => counting.collect(),
            Mode::Available => counting.filter(is_usable).collect(),
            Mode::First => counting.filter(is_usable).take(1).collect(),
        };
        let total: u64 = counting.iter().map(|(weight, _)| weight).sum();
        let (mut before, mut refused) = (0, WHOLE);
        for (weight, able) in counting {
            let weights: Vec<u128> = able
                .iter()
                .map(|one| {
                    let factor = if one.local {
                        service.local_backend_weight(port)
                    } else {
                        1
                    };
                    one.weight.saturating_mul(factor).into()
                })
                .collect();
            let sum: u128 = weights.iter().sum();
            // All lie side by side on a line, and the points between them are whole numbers.
            let point = |placed: u128| {
                let place = u128::from(before) * sum + u128::from(weight) * placed;
                (u128::from(WHOLE) * place / (u128::from(total) * sum)) as u32
            };
            let mut placed = 0;
            for (one, own) in able.iter().zip(&weights).filter(|_| weight > 0) {
                let share = point(placed + own) - point(placed);
                placed += own;
                refused -= share;
                if let Some(Some(has)) = of.get_mut(&one.at) {
                    *has += share;
                }
            }
            before += weight;
        }
        // Where no backend takes any, the frontend itself refuses them.
        if refused == WHOLE {
            refused = 0;
        }
        Shares { of, refused }
    }
}

/// A backend of which only its address is known.
fn elsewhere(at: Endpoint) -> Backend {
    Backend {
        at,
        weight: 1,
        local: false,
        node: None,
        state: State::Ready,
        scopes: None,
    }
}
