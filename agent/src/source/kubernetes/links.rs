//! Whether the server tells of each kind of objects.

use crate::source::kubernetes::watch::step::Step;

/// How a watch is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Link {
    /// Whether all objects were listed once, or it is known that there are none to be had.
    pub(super) is_complete: bool,
    /// Why nothing is heard, if that is so.
    pub(super) trouble: Option<String>,
    /// Whether anything was heard yet.
    is_heard: bool,
}

impl Link {
    /// Takes note of what the watch tells.
    pub(super) fn note<T>(&mut self, step: &Step<T>) {
        match step {
            Step::Listed(_) | Step::Absent(_) => {
                *self = Self {
                    is_complete: true,
                    trouble: None,
                    is_heard: true,
                }
            }
            Step::Applied(_) | Step::Deleted(_) | Step::Alive => {
                self.trouble = None;
                self.is_heard = true;
            }
            Step::Lost(trouble) => self.trouble = Some(trouble.clone()),
        }
    }

    /// Whether what is known is up to date.
    pub(super) const fn is_up(&self) -> bool {
        self.is_heard && self.trouble.is_none()
    }
}

/// The watches of all kinds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Links {
    pub(super) services: Link,
    pub(super) endpoint_slices: Link,
    pub(super) service_cidrs: Link,
    pub(super) nodes: Link,
    /// That of all nodes, if they are wanted.
    pub(super) peers: Option<Link>,
}

impl Links {
    fn all(&self) -> impl Iterator<Item = &Link> {
        let Self {
            services,
            endpoint_slices,
            service_cidrs,
            nodes,
            peers,
        } = self;
        let four = [services, endpoint_slices, service_cidrs, nodes];
        four.into_iter().chain(peers)
    }

    /// Whether the first lists are there.
    pub(super) fn are_complete(&self) -> bool {
        self.all().all(|link| link.is_complete)
    }

    /// Whether what is known is up to date.
    pub(super) fn are_up(&self) -> bool {
        self.all().all(Link::is_up)
    }

    /// Why it is not.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.all().find_map(|link| link.trouble.as_deref())
    }
}
