//! The questions that have followers.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use crate::lookup::query::{Query, Subject};

/// Questions, by what they are about.
#[derive(Debug, Default)]
pub struct Interest {
    by_subject: HashMap<Subject, BTreeSet<Query>>,
    /// Number of subjects that are services.
    services: usize,
}

impl Interest {
    /// Adds a question.
    pub fn insert(&mut self, query: Query) {
        let subject = query.subject.clone();
        let is_service = matches!(subject, Subject::Service(_));
        let queries = self.by_subject.entry(subject).or_default();
        self.services += usize::from(is_service && queries.is_empty());
        queries.insert(query);
    }

    /// Forgets a question.
    pub fn remove(&mut self, query: &Query) {
        if let Some(queries) = self.by_subject.get_mut(&query.subject) {
            queries.remove(query);
            if queries.is_empty() {
                self.by_subject.remove(&query.subject);
                self.services -= usize::from(matches!(query.subject, Subject::Service(_)));
            }
        }
    }

    /// Returns whether there is no question.
    pub fn is_empty(&self) -> bool {
        self.by_subject.is_empty()
    }

    /// Returns whether any question is about a service by its name.
    pub(super) const fn has_services(&self) -> bool {
        self.services > 0
    }

    /// Every question, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Query> {
        self.by_subject.values().flatten()
    }

    /// The questions about a subject, sorted.
    pub(super) fn about<'a>(
        &'a self,
        subject: &Subject,
    ) -> impl Iterator<Item = &'a Query> + use<'a> {
        self.by_subject.get(subject).into_iter().flatten()
    }

    /// The questions about those of `addresses` for which `has` returns true, of which there are
    /// `count`: by the shorter way of two.
    pub(super) fn among<'a, 'b>(
        &'a self,
        addresses: impl Iterator<Item = IpAddr> + 'b,
        count: usize,
        has: impl Fn(IpAddr) -> bool + 'b,
    ) -> Box<dyn Iterator<Item = &'a Query> + 'b>
    where
        'a: 'b,
    {
        if count <= self.by_subject.len() {
            return Box::new(addresses.flat_map(|address| self.about(&Subject::Address(address))));
        }
        let own = self
            .by_subject
            .iter()
            .filter(move |(subject, _)| match subject {
                Subject::Address(address) => has(*address),
                Subject::Service(_) => false,
            });
        Box::new(own.flat_map(|(_, queries)| queries))
    }
}
