//! The order of writes in which no endpoint is missing in between: one that moves is in its new slice before it
//! leaves the old one.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::controllers::workloads::{
    desired::Groups,
    slice::{Content, Endpoint, Slice},
    write::Write,
};

/// In how many slices each endpoint is that is to stay, by its identity.
struct Present<'a>(HashMap<&'a str, usize>);

/// The writes in an order such that each endpoint of `groups` that is in one of these `slices` is in one of
/// them all the time. Slices that give endpoints to each other cannot be written in any order: of these, one
/// that keeps its ports is written twice, at first with what it is to give away; one that does not is
/// made anew.
pub(super) fn ordered(slices: &[&Arc<Slice>], writes: Vec<Write>, groups: &Groups) -> Vec<Write> {
    if writes.len() < 2 {
        return writes;
    }
    let identities = groups.values().flat_map(|group| group.keys());
    let mut present = Present(identities.map(|identity| (&**identity, 0)).collect());
    for slice in slices {
        present.count(&slice.content.endpoints);
    }
    let mut done = Vec::with_capacity(writes.len());
    let mut pending = writes;
    // Whatever adds comes first.
    pending.sort_by_key(|write| match write {
        Write::Create(_) => 0,
        Write::Update(..) => 1,
        Write::Delete(_) => 2,
    });
    while !pending.is_empty() {
        let before = pending.len();
        let mut waiting = Vec::new();
        for write in pending {
            if present.allows(&write) {
                present.apply(&write);
                done.push(write);
            } else {
                waiting.push(write);
            }
        }
        if waiting.len() == before {
            present.untie(&mut waiting, &mut done);
        }
        pending = waiting;
    }
    done
}

impl Present<'_> {
    fn count(&mut self, endpoints: &[Arc<Endpoint>]) {
        for identity in identities(endpoints) {
            if let Some(count) = self.0.get_mut(identity) {
                *count += 1;
            }
        }
    }

    /// Returns whether nothing that is to stay is in this slice alone and leaves it.
    fn allows(&self, write: &Write) -> bool {
        let stays = |identity: &str| self.0.get(identity).is_none_or(|count| *count > 1);
        lost(write).into_iter().all(stays)
    }

    fn apply(&mut self, write: &Write) {
        for identity in lost(write) {
            if let Some(count) = self.0.get_mut(identity) {
                *count -= 1;
            }
        }
        match write {
            Write::Create(content) => self.count(&content.endpoints),
            Write::Update(old, content) => {
                let known = identities(&old.content.endpoints);
                let new = content.endpoints.iter();
                let new = new.filter(|endpoint| !known.contains(&*endpoint.identity));
                let new: Vec<Arc<Endpoint>> = new.cloned().collect();
                self.count(&new);
            }
            Write::Delete(_) => {}
        }
    }

    /// Each write of `waiting` waits for another one of them: does a part of one of them.
    fn untie(&mut self, waiting: &mut Vec<Write>, done: &mut Vec<Write>) {
        let Some(index) = waiting.iter().position(gains) else {
            // A slice that only loses endpoints waits for no other: all that is to stay is elsewhere by now.
            done.append(waiting);
            return;
        };
        let Write::Update(old, content) = waiting[index].clone() else {
            return;
        };
        if old.content.ports != content.ports {
            waiting[index] = Write::Delete(old);
            let create = Write::Create(content);
            self.apply(&create);
            done.push(create);
            return;
        }
        let new = identities(&content.endpoints);
        let leaving = old.content.endpoints.iter();
        let leaving: Vec<Arc<Endpoint>> = leaving
            .filter(|one| !new.contains(&*one.identity) && self.0.contains_key(&*one.identity))
            .cloned()
            .collect();
        // It is larger for a moment than slices are to be; the API takes ten times as many.
        let mut both = content.clone();
        both.endpoints.extend(leaving);
        let between = old.with(both.clone());
        waiting[index] = Write::Update(Arc::new(between), content);
        let first = Write::Update(old, both);
        self.apply(&first);
        done.push(first);
    }
}

fn identities(endpoints: &[Arc<Endpoint>]) -> HashSet<&str> {
    endpoints
        .iter()
        .map(|endpoint| &*endpoint.identity)
        .collect()
}

/// Returns whether a slice that there is gets endpoints.
fn gains(write: &Write) -> bool {
    let Write::Update(old, content) = write else {
        return false;
    };
    let known = identities(&old.content.endpoints);
    let mut new = content.endpoints.iter();
    new.any(|endpoint| !known.contains(&*endpoint.identity))
}

/// The endpoints that a slice loses.
fn lost(write: &Write) -> HashSet<&str> {
    let (old, kept) = match write {
        Write::Create(_) => return HashSet::new(),
        Write::Update(old, Content { endpoints, .. }) => (old, identities(endpoints)),
        Write::Delete(old) => (old, HashSet::new()),
    };
    let mut lost = identities(&old.content.endpoints);
    lost.retain(|identity| !kept.contains(identity));
    lost
}
