//! Values that many endpoints share are kept once.

use std::{collections::HashSet, hash::Hash, sync::Arc};

use super::{
    endpoint_slice::{EndpointSlice, Hints},
    names,
};

/// The hints that endpoints have. Names of nodes are shared as they are read ([`names`]).
#[derive(Debug, Default)]
pub(crate) struct Interner {
    hints: HashSet<Arc<Hints>>,
}

impl Interner {
    /// Has the slice's endpoints share what others have already.
    pub(crate) fn share(&mut self, slice: &mut EndpointSlice) {
        for endpoint in &mut slice.endpoints {
            if let Some(hints) = &mut endpoint.hints {
                intern(&mut self.hints, hints);
            }
        }
    }

    /// Forgets what no endpoint has any more.
    pub(crate) fn prune(&mut self) {
        names::prune();
        self.hints.retain(|hints| Arc::strong_count(hints) > 1);
    }
}

fn intern<T: Eq + Hash>(known: &mut HashSet<Arc<T>>, value: &mut Arc<T>) {
    match known.get(&**value) {
        Some(known) => *value = Arc::clone(known),
        None => {
            known.insert(Arc::clone(value));
        }
    }
}
