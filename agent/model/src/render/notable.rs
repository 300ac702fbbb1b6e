//! Services and frontends that need attention: they are found without a walk over all there are.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    render::{entry::Entry, frontend::FrontendKey},
    service_id::ServiceId,
};

/// The services and frontends that need attention.
#[derive(Debug, Default)]
pub(super) struct Notable {
    /// Services with a frontend in mode dsr.
    dsr: BTreeSet<Arc<ServiceId>>,
    /// Claims to frontends that lack local endpoints.
    without_local: BTreeSet<(FrontendKey, Arc<ServiceId>)>,
}

impl Notable {
    /// Replaces what is known of the service `id`.
    pub(super) fn replace(
        &mut self,
        id: &Arc<ServiceId>,
        old: Option<&Entry>,
        new: Option<&Entry>,
    ) {
        for key in old.into_iter().flat_map(without_local) {
            self.without_local.remove(&(key, Arc::clone(id)));
        }
        for key in new.into_iter().flat_map(without_local) {
            self.without_local.insert((key, Arc::clone(id)));
        }
        if new.is_some_and(Entry::has_dsr) {
            self.dsr.insert(Arc::clone(id));
        } else if old.is_some_and(Entry::has_dsr) {
            self.dsr.remove(id);
        }
    }

    /// Services with a frontend in mode dsr.
    pub(super) fn dsr(&self) -> impl Iterator<Item = &Arc<ServiceId>> {
        self.dsr.iter()
    }

    /// Claims to frontends that lack local endpoints.
    pub(super) fn without_local(&self) -> impl Iterator<Item = (FrontendKey, &Arc<ServiceId>)> {
        self.without_local.iter().map(|(key, id)| (*key, id))
    }
}

fn without_local(entry: &Entry) -> impl Iterator<Item = FrontendKey> {
    let claimed = entry.frontends().iter();
    let lacking = claimed.filter(|(_, frontend)| frontend.lacks_local_endpoints());
    lacking.map(|(key, _)| *key)
}
