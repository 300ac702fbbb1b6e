//! The effects of a change on others.

use std::collections::BTreeSet;

use crate::local::state::service::Registered;

/// Effects of a change on others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Services whose content is another, or that are gone or new: who waits for them is answered.
    pub(crate) changed: BTreeSet<String>,
    /// The names of services with another content or status, by which frontends look for them.
    pub(crate) concerned: BTreeSet<String>,
    /// True if a status is another.
    pub(crate) has_status: bool,
    /// True if a check is another, new or gone, or has another status.
    pub(crate) has_checks: bool,
}

/// A part of the registrations, which clients read and wait for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The nodes. There is one, which never changes.
    Nodes,
    /// The content of all services.
    Services,
    /// All services and checks.
    All,
    /// The services of a name, and their health.
    Name(String),
}

impl Subject {
    /// The services of a name, in whatever letters.
    pub fn name(name: &str) -> Self {
        Self::Name(name.to_lowercase())
    }
}

impl Effects {
    /// Returns whether clients see it.
    pub(super) fn is_seen(&self) -> bool {
        self.has_checks || !self.changed.is_empty()
    }

    /// Returns the changed subjects that clients may wait for.
    pub(crate) fn subjects(&self) -> Vec<Subject> {
        let services = (!self.changed.is_empty()).then_some(Subject::Services);
        let all = self.is_seen().then_some(Subject::All);
        let names = self.concerned.iter().map(|name| Subject::name(name));
        services.into_iter().chain(all).chain(names).collect()
    }

    /// A service is another, or its health is.
    pub(super) fn concern(&mut self, registered: &Registered) {
        let names = registered.service.found_as().map(str::to_owned);
        self.concerned.extend(names);
    }
}
