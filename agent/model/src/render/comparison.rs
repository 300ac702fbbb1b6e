//! Comparison of frontends, of which many share one set.

use std::{collections::HashMap, marker::PhantomData, sync::Arc};

use ipnet::IpNet;

use crate::render::frontend::{BackendSet, Frontend};

/// Compares frontends of two states. Each pair of sets, and of lists of source ranges, is compared once: a service
/// port may have a frontend at each of many addresses.
#[derive(Debug, Default)]
pub(super) struct Comparison<'a> {
    sets: HashMap<(*const BackendSet, *const BackendSet), bool>,
    ranges: HashMap<(*const [IpNet], *const [IpNet]), bool>,
    /// Nothing that was compared is replaced meanwhile.
    _compared: PhantomData<&'a Frontend>,
}

impl<'a> Comparison<'a> {
    /// Returns whether the two are alike.
    pub(super) fn are_alike(&mut self, one: &'a Frontend, other: &'a Frontend) -> bool {
        let Frontend {
            kind,
            policy,
            clients,
            forwarding,
            masquerade,
            refusal,
            backends,
            this_node,
            with_draining,
            sources,
        } = one;
        (kind, policy, clients) == (&other.kind, &other.policy, &other.clients)
            && (forwarding, masquerade) == (&other.forwarding, &other.masquerade)
            && refusal == &other.refusal
            && self.are_sets_alike(backends, &other.backends)
            && self.are_both_alike(this_node.as_deref(), other.this_node.as_deref())
            && self.are_both_alike(with_draining.as_deref(), other.with_draining.as_deref())
            && self.are_ranges_alike(sources, &other.sources)
    }

    fn are_both_alike(&mut self, one: Option<&'a Frontend>, other: Option<&'a Frontend>) -> bool {
        match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => self.are_alike(one, other),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn are_sets_alike(&mut self, one: &Arc<BackendSet>, other: &Arc<BackendSet>) -> bool {
        let pair = (Arc::as_ptr(one), Arc::as_ptr(other));
        *self.sets.entry(pair).or_insert_with(|| one == other)
    }

    fn are_ranges_alike(&mut self, one: &Arc<[IpNet]>, other: &Arc<[IpNet]>) -> bool {
        if one.is_empty() && other.is_empty() {
            return true;
        }
        let pair = (Arc::as_ptr(one), Arc::as_ptr(other));
        *self.ranges.entry(pair).or_insert_with(|| one == other)
    }
}
