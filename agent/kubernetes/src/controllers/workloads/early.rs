//! Reports of the watch on slices while they are written.
//!
//! Mostly it is the write itself, which the watch reports before its answer is here. To look at the whole
//! Service again for it would cost as much as the change did.

use std::{collections::HashMap, sync::Arc};

use shunt_model::ServiceId;

use crate::controllers::workloads::slice::Slice;

/// Reports on the slices of the Services that are being written.
#[derive(Debug, Default)]
pub(super) struct Early(HashMap<ServiceId, Vec<Told>>);

/// A slice in a version.
#[derive(Debug)]
pub(super) struct Told {
    name: Box<str>,
    version: Box<str>,
}

impl Told {
    pub(super) fn of(slice: &Slice) -> Self {
        Self {
            name: slice.name.clone(),
            version: slice.version.clone(),
        }
    }
}

impl Early {
    /// A slice of the Service is so now.
    pub(super) fn add(&mut self, service: ServiceId, told: Told) {
        self.0.entry(service).or_default().push(told);
    }

    /// The Service has been `written`: returns whether something else was reported, too.
    pub(super) fn has_others(&mut self, service: &ServiceId, written: &[Arc<Slice>]) -> bool {
        let told = self.0.remove(service).unwrap_or_default();
        let is_own = |told: &Told| {
            let mut written = written.iter();
            written.any(|slice| slice.name == told.name && slice.version == told.version)
        };
        !told.iter().all(is_own)
    }
}
