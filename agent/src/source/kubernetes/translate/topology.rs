//! Which of the ready endpoints are meant for this node (topology hints).

use crate::source::kubernetes::{objects::endpoint_slice::Hints, translate::view::NodeView};

/// By what the ready endpoints of a service port are chosen under policy Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topology<'a> {
    /// Those that are meant for this node.
    Node(&'a str),
    /// Those that are meant for this node's zone.
    Zone(&'a str),
    /// All of them.
    Everywhere,
}

impl<'a> Topology<'a> {
    /// What the hints of the `ready` endpoints lead to at `node`.
    ///
    /// An endpoint without a hint switches its kind of hints off for the whole service port, and so
    /// does it if no endpoint is meant for here.
    pub(super) fn of<'h>(
        ready: &(impl Iterator<Item = Option<&'h Hints>> + Clone),
        node: &'a NodeView,
    ) -> Self {
        let hinted = |has: &dyn Fn(&Hints) -> bool, any: &dyn Fn(&Hints) -> bool| {
            let mut found = false;
            for hints in ready.clone() {
                match hints {
                    Some(hints) if any(hints) => found |= has(hints),
                    _ => return false,
                }
            }
            found
        };
        let NodeView { name, zone, .. } = node;
        if hinted(&|hints| hints.has_node(name), &|hints| {
            !hints.nodes.is_empty()
        }) {
            return Self::Node(name);
        }
        match zone.as_deref() {
            Some(zone)
                if hinted(&|hints| hints.has_zone(zone), &|hints| {
                    !hints.zones.is_empty()
                }) =>
            {
                Self::Zone(zone)
            }
            _ => Self::Everywhere,
        }
    }

    /// Whether a ready endpoint with these hints is meant for here.
    pub(super) fn chooses(self, hints: Option<&Hints>) -> bool {
        match self {
            Self::Node(node) => hints.is_some_and(|hints| hints.has_node(node)),
            Self::Zone(zone) => hints.is_some_and(|hints| hints.has_zone(zone)),
            Self::Everywhere => true,
        }
    }
}
