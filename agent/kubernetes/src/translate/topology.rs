//! Topology hints as this node sees them.

use shunt_model::{Hint, Hints};

use crate::{objects::endpoint_slice, translate::view::NodeView};

/// The hints of an endpoint as `node` sees them.
pub(super) fn hints_at(node: &NodeView, hints: Option<&endpoint_slice::Hints>) -> Hints {
    let Some(hints) = hints else {
        return Hints::default();
    };
    let hint = |names: &[Box<str>], is_here: bool| match (names, is_here) {
        ([], _) => Hint::None,
        (_, true) => Hint::Here,
        (_, false) => Hint::Elsewhere,
    };
    let zone = node.zone.as_deref();
    Hints {
        node: hint(&hints.nodes, hints.has_node(&node.name)),
        zone: hint(&hints.zones, zone.is_some_and(|zone| hints.has_zone(zone))),
    }
}
