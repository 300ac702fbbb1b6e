//! The backend sets of a service port whose connections are shared out among several services.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use crate::{
    endpoint::{Endpoint, EndpointState, Scopes},
    maglev::EntriesPerBackend,
    render::{
        frontend::{Backend, BackendSet, PortPart, Refusal, SplitShares},
        reach::Reach,
        shares::{Part, WHOLE, divide},
        split_target::{Behind, Others, PortIndex},
    },
    selection::Selection,
    service::{Service, ServicePort},
    split::{Split, SplitMode},
};

/// Makes each set when the first frontend asks for it, and shares it among all that use it.
pub(super) struct SplitSets<'a> {
    service: &'a Service,
    port: &'a ServicePort,
    split: &'a Arc<Split>,
    maglev_entries: EntriesPerBackend,
    v4: FamilySets,
    v6: FamilySets,
}

/// The sets that frontends of one address family select from.
#[derive(Default)]
struct FamilySets {
    /// True if any endpoint of a backend with a weight is usable, wherever it is.
    is_usable: bool,
    /// By address and port, each once.
    members: BTreeMap<(IpAddr, u16), Member>,
    /// The connections of the Cluster set, and of the Local one, beside the shares of the members.
    cluster: Division,
    local: Division,
    made: Vec<((Reach, Selection), Arc<BackendSet>)>,
}

/// Shares in the two sets, in parts of [`WHOLE`].
#[derive(Debug, Clone, Copy, Default)]
struct PerSet {
    cluster: u32,
    local: u32,
}

/// Division of a set's connections among the backends of the split.
#[derive(Debug, Clone, Copy, Default)]
struct Division {
    /// The share that is refused, in parts of [`WHOLE`].
    refused: u32,
    /// The place of the backend that takes all, in mode `first`.
    first: Option<usize>,
}

/// An endpoint of one or more of the split's backends.
#[derive(Debug, Clone, Copy)]
struct Member {
    local: bool,
    scopes: Scopes,
    share: PerSet,
}

/// A backend of the split, as one address family has it.
struct Candidate {
    weight: u32,
    /// Endpoints that have connections. Their weights are those with which they take new ones.
    endpoints: Vec<Endpoint>,
}

impl<'a> SplitSets<'a> {
    /// The sets of `port`, which has this split. The weights of endpoints here count
    /// `local_backend_weight` times, against those of other endpoints of the same backend.
    pub(super) fn new(
        service: &'a Service,
        port: &'a ServicePort,
        split: &'a Arc<Split>,
        (others, index): (&Others<'a>, &PortIndex<'a>),
        (maglev_entries, local_backend_weight): (EntriesPerBackend, u32),
    ) -> Self {
        let family = |ipv4: bool| {
            let candidates = split.backends.iter().map(|backend| {
                let behind = Behind::of(&backend.target, service, port.protocol, (others, index));
                let endpoints = behind
                    .endpoints()
                    .filter(|endpoint| endpoint.ip.is_ipv4() == ipv4)
                    .filter(|endpoint| endpoint.state != EndpointState::NotReady)
                    .map(|endpoint| {
                        let factor = if endpoint.local {
                            local_backend_weight
                        } else {
                            1
                        };
                        Endpoint {
                            weight: endpoint.weight.saturating_mul(factor),
                            node: None,
                            zone: None,
                            ..*endpoint
                        }
                    });
                Candidate {
                    weight: backend.weight,
                    endpoints: endpoints.collect(),
                }
            });
            FamilySets::new(split.mode, &candidates.collect::<Vec<_>>())
        };
        Self {
            service,
            port,
            split,
            maglev_entries,
            v4: family(true),
            v6: family(false),
        }
    }

    /// Returns the refusal of a frontend on `address` whose own set has no usable backend: it drops if some endpoint,
    /// wherever it is, could take connections.
    pub(super) const fn refusal(&self, address: IpAddr) -> Refusal {
        let family = if address.is_ipv4() {
            &self.v4
        } else {
            &self.v6
        };
        if family.is_usable {
            Refusal::Drop
        } else {
            Refusal::Reject
        }
    }

    /// The set that a frontend on `address` with this reach selects from, in this way.
    pub(super) fn of(
        &mut self,
        address: IpAddr,
        reach: Reach,
        selection: Selection,
    ) -> Arc<BackendSet> {
        let wanted = (reach, selection);
        let mut made = self.family_mut(address).made.iter();
        if let Some((_, set)) = made.find(|(what, _)| *what == wanted) {
            return Arc::clone(set);
        }
        let set = self.build(address, reach, selection);
        let made = &mut self.family_mut(address).made;
        let equal = made.iter().find(|(_, other)| **other == set);
        let set = equal.map_or_else(|| Arc::new(set), |(_, other)| Arc::clone(other));
        made.push((wanted, Arc::clone(&set)));
        set
    }

    fn build(&mut self, address: IpAddr, reach: Reach, selection: Selection) -> BackendSet {
        let FamilySets {
            members,
            cluster,
            local,
            ..
        } = self.family_mut(address);
        let Division { refused, first } = match reach {
            Reach::Cluster => *cluster,
            Reach::Local => *local,
            // The other node has refused that share.
            Reach::Here => Division {
                refused: 0,
                ..*cluster
            },
        };
        let (backends, shares): (Vec<Backend>, Vec<u32>) = members
            .iter()
            .filter_map(|(&(ip, port), member)| {
                // One that has no share is listed all the same: it keeps the connections that it has.
                let share = match reach {
                    Reach::Cluster => member.scopes.cluster.then_some(member.share.cluster),
                    Reach::Local => member.scopes.local.then_some(member.share.local),
                    Reach::Here => member.scopes.local.then_some(member.share.cluster),
                };
                let (weight, scopes) = member.standing();
                let backend = Backend {
                    ip,
                    port,
                    weight,
                    local: member.local,
                    scopes,
                };
                Some((backend, share?))
            })
            .unzip();
        let taking = shares.iter().filter(|share| **share > 0).count();
        // Where nothing takes connections, the frontend refuses them all by itself.
        let refused = if taking == 0 { 0 } else { refused };
        let maglev = match selection {
            Selection::Weighted => None,
            Selection::Maglev => {
                let entries = taking + usize::from(refused > 0);
                Some(self.maglev_entries.table_size(entries))
            }
        };
        BackendSet {
            service: Arc::clone(&self.service.id),
            port: Arc::clone(&self.port.name),
            affinity_timeout: self.service.session_affinity_timeout,
            maglev,
            part: PortPart::Main,
            split: Some(SplitShares {
                split: Arc::clone(self.split),
                of_backends: shares.into(),
                refused,
                first,
            }),
            backends,
        }
    }

    const fn family_mut(&mut self, address: IpAddr) -> &mut FamilySets {
        if address.is_ipv4() {
            &mut self.v4
        } else {
            &mut self.v6
        }
    }
}

impl FamilySets {
    fn new(mode: SplitMode, candidates: &[Candidate]) -> Self {
        let mut family = Self::default();
        for Candidate { weight, endpoints } in candidates {
            for endpoint in endpoints {
                family.is_usable |= *weight > 0 && takes(endpoint, true);
                let &Endpoint {
                    ip,
                    port,
                    local,
                    scopes,
                    ..
                } = endpoint;
                let member = family.members.entry((ip, port)).or_insert(Member {
                    local,
                    scopes,
                    share: PerSet::default(),
                });
                member.local |= local;
                member.scopes.cluster |= scopes.cluster;
                member.scopes.local |= scopes.local;
            }
        }
        let Self {
            members,
            cluster,
            local,
            ..
        } = &mut family;
        *cluster = share_out(
            mode,
            candidates,
            |scopes| scopes.cluster,
            |at, share| {
                if let Some(member) = members.get_mut(&at) {
                    member.share.cluster += share;
                }
            },
        );
        *local = share_out(
            mode,
            candidates,
            |scopes| scopes.local,
            |at, share| {
                if let Some(member) = members.get_mut(&at) {
                    member.share.local += share;
                }
            },
        );
        family
    }
}

impl Member {
    /// Its weight, and the sets that have it with this weight: those in which it takes connections, or
    /// else all.
    const fn standing(&self) -> (u32, Scopes) {
        let &Self {
            local: _,
            scopes,
            share,
        } = self;
        let takes = Scopes {
            cluster: share.cluster > 0,
            local: share.local > 0,
        };
        if takes.cluster || takes.local {
            (1, takes)
        } else {
            (0, scopes)
        }
    }
}

/// Returns whether an endpoint takes new connections; `falls_back`: where no ready one of its backend does.
const fn takes(endpoint: &Endpoint, falls_back: bool) -> bool {
    let can = match endpoint.state {
        EndpointState::Ready => true,
        EndpointState::Terminating => endpoint.serving && falls_back,
        EndpointState::NotReady => false,
    };
    can && endpoint.weight > 0
}

/// Divides the connections of the set of endpoints with these scopes, and passes to `add` the share of each endpoint that
/// takes some. Each backend falls back to endpoints that are terminating and still serving by itself, as its own
/// frontends do.
fn share_out(
    mode: SplitMode,
    candidates: &[Candidate],
    is_in: impl Fn(Scopes) -> bool,
    mut add: impl FnMut((IpAddr, u16), u32),
) -> Division {
    let (mut parts, mut taking) = (Vec::new(), Vec::new());
    let (mut total, mut first) = (0, None);
    for (place, Candidate { weight, endpoints }) in candidates.iter().enumerate() {
        let among = |falls_back| {
            let endpoints = endpoints.iter();
            let able = endpoints.filter(move |endpoint| takes(endpoint, falls_back));
            able.filter(|endpoint| is_in(endpoint.scopes)).collect()
        };
        let mut able: Vec<&Endpoint> = among(false);
        if able.is_empty() {
            able = among(true);
        }
        let is_usable = *weight > 0 && !able.is_empty();
        if is_usable {
            parts.push(Part {
                before: total,
                weight: *weight,
                members: able.iter().map(|endpoint| endpoint.weight).collect(),
            });
            taking.push(able);
        }
        let counts = match mode {
            SplitMode::Strict => true,
            SplitMode::Available | SplitMode::First => is_usable,
        };
        if counts {
            total += u64::from(*weight);
        }
        if is_usable && mode == SplitMode::First {
            first = Some(place);
            break;
        }
    }
    let mut refused = WHOLE;
    for (endpoints, shares) in taking.iter().zip(divide(&parts, total)) {
        for (endpoint, share) in endpoints.iter().zip(shares) {
            refused -= share;
            add((endpoint.ip, endpoint.port), share);
        }
    }
    Division { refused, first }
}
