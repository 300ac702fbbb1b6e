//! Targets and endpoints of an address.

pub(super) mod answer;
pub(super) mod change;
pub(super) mod endpoint;
pub(super) mod target;
