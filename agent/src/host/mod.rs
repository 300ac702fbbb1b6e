//! This host: what it must offer, and its addresses.

pub(crate) mod addresses;
pub(crate) mod settings;
