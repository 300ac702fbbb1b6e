//! Changes of an answer.

use std::cmp::Ordering;

use crate::lookup::{
    answer::{Answer, Membership},
    endpoint::{EndpointKey, EndpointView},
    target::Target,
};

/// The difference between two answers to one question. Applied to the old one, the `adds` before the `removes`, it
/// gives the new one, and at every instant each endpoint that is in both is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta<'a> {
    /// The targets, if any of them is another one than before.
    pub targets: Option<&'a [Target]>,
    /// True if it has another owner now.
    pub rebind: bool,
    /// Endpoints that are new, or in their new form; sorted by key.
    pub adds: Vec<&'a EndpointView>,
    /// Endpoints that are gone, sorted; none of them is among the `adds`.
    pub removes: Vec<EndpointKey>,
    /// Set if there is no endpoint now, and that or the reason for it is new.
    pub empty: Option<Empty>,
    /// The service ports that have it as an endpoint, if they are others than before.
    pub member_of: Option<&'a [Membership]>,
}

/// There is no endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Empty {
    /// True if [something is there](Answer::exists) all the same.
    pub exists: bool,
}

impl<'a> Delta<'a> {
    /// Everything in `answer`: the first delta.
    pub fn all(answer: &'a Answer) -> Self {
        Self {
            targets: Some(&answer.targets),
            rebind: false,
            adds: answer.endpoints.iter().collect(),
            removes: Vec::new(),
            empty: empty(answer),
            member_of: Some(&answer.member_of),
        }
    }

    /// Returns the changes from `old` to `new`, the answers to one question.
    pub fn between(old: &Answer, new: &'a Answer) -> Self {
        let (adds, removes) = endpoints_between(&old.endpoints, &new.endpoints);
        let targets_differ = old.targets != new.targets;
        Self {
            targets: targets_differ.then_some(&*new.targets),
            rebind: targets_differ && old.owners() != new.owners(),
            adds,
            removes,
            empty: empty(new).filter(|now| empty(old) != Some(*now)),
            member_of: (old.member_of != new.member_of).then_some(&*new.member_of),
        }
    }

    /// Returns whether nothing is new.
    pub const fn is_nothing(&self) -> bool {
        let Self {
            targets,
            rebind: _,
            adds,
            removes,
            empty,
            member_of,
        } = self;
        targets.is_none()
            && adds.is_empty()
            && removes.is_empty()
            && empty.is_none()
            && member_of.is_none()
    }
}

fn empty(answer: &Answer) -> Option<Empty> {
    let exists = answer.exists();
    answer.endpoints.is_empty().then_some(Empty { exists })
}

/// Returns the changes from one list of endpoints to another, both sorted by key, each key once: endpoints that are new
/// or differ, and the keys of those that are gone. No key is in both.
pub fn endpoints_between<'a>(
    old: &[EndpointView],
    new: &'a [EndpointView],
) -> (Vec<&'a EndpointView>, Vec<EndpointKey>) {
    let (mut adds, mut removes) = (Vec::new(), Vec::new());
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return (adds, removes),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.key.cmp(&new.key),
        };
        match order {
            Ordering::Less => removes.extend(old.next().map(|old| old.key)),
            Ordering::Greater => adds.extend(new.next()),
            Ordering::Equal => {
                let (before, after) = (old.next(), new.next());
                adds.extend(after.filter(|after| before != Some(after)));
            }
        }
    }
}
