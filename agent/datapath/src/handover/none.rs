//! No version hands over to this one: none that is worth it had other layouts.

use aya::Ebpf;

use crate::{
    error::DatapathError,
    pins::{directory::Pins, layout::Layout},
};

/// A handover, of which there is none.
#[derive(Debug)]
pub(crate) enum Handover {}

impl Handover {
    /// None begins: no earlier layout is found to be one that hands over.
    pub(crate) fn begin(_: &mut Ebpf, _: &Pins) -> Result<Self, DatapathError> {
        Err(DatapathError::Missing("way from an earlier layout"))
    }

    /// None has begun.
    pub(crate) fn finish(self, _: &Pins, _: &Layout) -> Result<(), DatapathError> {
        match self {}
    }
}
