//! What the programs know of direct server return before they look anything up, see [`shunt_common::dsr`].

use std::{num::NonZeroU64, sync::Arc};

use aya::maps::MapData;
use shunt_common::{
    dsr::{LOCATED, NONE, SOME, SOUGHT, TRACKED, WORDS},
    registry,
};

use crate::{error::DatapathError, sys::shared_words::SharedWords};

/// The words that say it.
#[derive(Debug, Clone)]
pub(crate) struct DsrUse(Arc<SharedWords>);

impl DsrUse {
    /// Over the object's table. What an agent before has left may have connections of any kind.
    ///
    /// # Errors
    ///
    /// If it cannot be mapped.
    pub(crate) fn over(table: &MapData) -> Result<Self, DatapathError> {
        let name = registry::DSR.name;
        let words = SharedWords::writable(table.fd(), WORDS)
            .map_err(|source| DatapathError::Mapping { name, source })?;
        let this = Self(Arc::new(words));
        this.note_tracked();
        Ok(this)
    }

    /// Says how often what is known of nodes of addresses has changed, at least once; `None`: none is known.
    pub(crate) fn set_located(&self, changes: Option<NonZeroU64>) {
        self.0
            .store(LOCATED as usize, changes.map_or(NONE, NonZeroU64::get));
    }

    /// Says that there may be connections to frontends in mode dsr.
    pub(crate) fn note_tracked(&self) {
        self.0.store(TRACKED as usize, SOME);
    }

    /// Begins to look for such connections; `None` if there are none. From then on the programs say if
    /// there are new ones, but for those that they are at.
    pub(crate) fn seek(&self) -> Option<Search<'_>> {
        if self.0.load(TRACKED as usize) == NONE {
            return None;
        }
        self.0.store(TRACKED as usize, SOUGHT);
        Some(Search(self))
    }
}

/// A look at all connections, for those to frontends in mode dsr.
#[derive(Debug)]
#[must_use = "the programs look for such connections until it ends"]
pub(crate) struct Search<'a>(&'a DsrUse);

impl Search<'_> {
    /// Says that there was none.
    pub(crate) fn found_none(self) {
        // Whoever has written meanwhile that there are some is right.
        self.0.0.exchange(TRACKED as usize, SOUGHT, NONE);
    }
}
