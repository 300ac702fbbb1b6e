//! Distribution of endpoints over slices: a pure function of the slices that there are and of the endpoints that
//! there are to be, with as few writes as it takes.

use std::{collections::HashSet, sync::Arc};

use foldhash::quality::RandomState;

use crate::controllers::workloads::{
    desired::{Desired, Group, Groups, labels},
    order::ordered,
    service::{Family, Labels, Service},
    slice::{Content, Endpoint, Ports, Slice},
    write::Write,
};

/// Maximum number of endpoints in a slice.
pub(super) const AT_MOST: usize = 100;

/// A slice as it is to be.
#[derive(Debug)]
struct Draft {
    /// The one that there is.
    old: Option<Arc<Slice>>,
    ports: Ports,
    endpoints: Vec<Arc<Endpoint>>,
    is_changed: bool,
}

/// Returns the writes to the slices of a Service, in order; each list by itself, and one that fails is no
/// reason to leave the next one. `slices` are all of ours that name the Service.
pub(super) fn plan(service: &Service, slices: &[Arc<Slice>], desired: &Desired) -> Vec<Vec<Write>> {
    let labels = Arc::new(labels(service));
    let mut sorted: Vec<&Arc<Slice>> = slices
        .iter()
        .filter(|slice| !slice.is_terminating)
        .collect();
    // All that pack the same slices have to agree on which of two keeps an endpoint that both have.
    sorted.sort_by(|one, other| one.name.cmp(&other.name));
    let mut lists = Vec::new();
    for (family, groups) in &desired.families {
        let own = sorted.iter().copied();
        let own = own.filter(|slice| slice.content.family == Some(*family));
        let mut family = Packing {
            service,
            family: *family,
            labels: &labels,
            groups,
            claimed: HashSet::default(),
            drafts: Vec::new(),
            doomed: Vec::new(),
        };
        let own: Vec<&Arc<Slice>> = own.collect();
        family.keep(&own);
        family.fill();
        lists.push(ordered(&own, family.writes(), groups));
    }
    // Those of a family that the Service does not have come last.
    let others = sorted.into_iter().filter(|slice| {
        let family = slice.content.family;
        family.is_none_or(|family| !desired.families.contains_key(&family))
    });
    lists.push(others.cloned().map(Write::Delete).collect());
    if service.is_terminating {
        for list in &mut lists {
            list.retain(|write| !matches!(write, Write::Create(_)));
        }
    }
    lists.retain(|list| !list.is_empty());
    lists
}

/// The slices of one family.
struct Packing<'a> {
    service: &'a Service,
    family: Family,
    labels: &'a Arc<Labels>,
    groups: &'a Groups,
    /// The identities of the endpoints that are in a draft.
    claimed: HashSet<&'a str, RandomState>,
    drafts: Vec<Draft>,
    /// Slices that are not needed any more.
    doomed: Vec<Arc<Slice>>,
}

impl<'a> Packing<'a> {
    /// Finds out what stays of the slices that there are.
    fn keep(&mut self, slices: &[&Arc<Slice>]) {
        for slice in slices {
            let content = &slice.content;
            let groups: &'a Groups = self.groups;
            let group = groups.get(&content.ports);
            let Some(group) = group.filter(|_| slice.is_owned_by(self.service)) else {
                self.doomed.push(Arc::clone(slice));
                continue;
            };
            let mut endpoints = Vec::with_capacity(content.endpoints.len());
            let mut is_changed = content.labels != *self.labels;
            for endpoint in &content.endpoints {
                match group.get_key_value(&*endpoint.identity) {
                    // One that is larger than ours are gives the rest to others.
                    Some((identity, new))
                        if endpoints.len() < AT_MOST && self.claimed.insert(identity) =>
                    {
                        is_changed |= new != endpoint;
                        endpoints.push(Arc::clone(new));
                    }
                    _ => is_changed = true,
                }
            }
            if endpoints.is_empty() && !content.endpoints.is_empty() {
                self.doomed.push(Arc::clone(slice));
                continue;
            }
            self.drafts.push(Draft {
                old: Some(Arc::clone(slice)),
                ports: Arc::clone(&content.ports),
                endpoints,
                is_changed,
            });
        }
    }

    /// Has every endpoint be in a slice.
    fn fill(&mut self) {
        let groups: &'a Groups = self.groups;
        for (ports, group) in groups {
            let left = self.left_over(group);
            self.fill_group(ports, left);
        }
    }

    /// The endpoints that are in no slice yet. Those that one slice had come together, so that its
    /// successor may have them all.
    fn left_over(&mut self, group: &'a Group) -> Vec<Arc<Endpoint>> {
        let mut left = Vec::new();
        for endpoint in self
            .doomed
            .iter()
            .flat_map(|slice| &slice.content.endpoints)
        {
            if let Some((identity, new)) = group.get_key_value(&*endpoint.identity)
                && self.claimed.insert(identity)
            {
                left.push(Arc::clone(new));
            }
        }
        for (identity, new) in group {
            if self.claimed.insert(identity) {
                left.push(Arc::clone(new));
            }
        }
        left
    }

    fn fill_group(&mut self, ports: &Ports, left: Vec<Arc<Endpoint>>) {
        let mut left = left.into_iter();
        let mut changed: Vec<&mut Draft> = (self.drafts.iter_mut())
            .filter(|draft| draft.ports == *ports && draft.is_changed)
            .collect();
        // What is written anyway is filled first, the fullest of them before the others.
        changed.sort_by_key(|draft| usize::MAX - draft.endpoints.len());
        for draft in changed {
            draft.take_from(&mut left);
        }
        while left.len() > 0 {
            let rest = left.len();
            let fits = |draft: &&mut Draft| {
                let is_open = draft.ports == *ports && !draft.is_changed;
                is_open && draft.endpoints.len() + rest <= AT_MOST
            };
            let best = self
                .drafts
                .iter_mut()
                .filter(fits)
                .max_by_key(|draft| draft.endpoints.len());
            let draft = match best {
                Some(draft) if rest < AT_MOST => draft,
                _ => {
                    self.drafts.push(Draft {
                        old: None,
                        ports: Arc::clone(ports),
                        endpoints: Vec::new(),
                        is_changed: true,
                    });
                    let Some(last) = self.drafts.last_mut() else {
                        return;
                    };
                    last
                }
            };
            draft.take_from(&mut left);
        }
    }

    /// Returns the writes. A new slice takes the place of one that is not needed any more.
    fn writes(self) -> Vec<Write> {
        let Self {
            service,
            family,
            labels,
            groups: _,
            claimed: _,
            drafts,
            mut doomed,
        } = self;
        let mut writes = Vec::new();
        for draft in drafts {
            let Draft {
                old,
                ports,
                endpoints,
                is_changed,
            } = draft;
            if !is_changed {
                continue;
            }
            let old = old.or_else(|| successor(&mut doomed, &endpoints, service));
            let content = Content {
                family: Some(family),
                labels: Arc::clone(labels),
                ports,
                endpoints,
            };
            writes.push(match old {
                Some(old) => Write::Update(old, content),
                None => Write::Create(content),
            });
        }
        writes.extend(doomed.into_iter().map(Write::Delete));
        writes
    }
}

impl Draft {
    /// Takes as many as it has room for.
    fn take_from(&mut self, left: &mut impl Iterator<Item = Arc<Endpoint>>) {
        let room = AT_MOST.saturating_sub(self.endpoints.len());
        let before = self.endpoints.len();
        self.endpoints.extend(left.take(room));
        self.is_changed |= self.endpoints.len() > before;
    }
}

/// The slice whose name a new one with these endpoints may have: the one that has most of them, the last
/// among equals.
fn successor(
    doomed: &mut Vec<Arc<Slice>>,
    endpoints: &[Arc<Endpoint>],
    service: &Service,
) -> Option<Arc<Slice>> {
    let identities: HashSet<&str> = endpoints.iter().map(|one| &*one.identity).collect();
    let owned = doomed.iter().enumerate();
    let owned = owned.filter(|(_, slice)| slice.is_owned_by(service));
    let common = |slice: &Slice| {
        let endpoints = slice.content.endpoints.iter();
        endpoints
            .filter(|one| identities.contains(&*one.identity))
            .count()
    };
    let (index, _) = owned.max_by_key(|(_, slice)| common(slice))?;
    Some(doomed.remove(index))
}
