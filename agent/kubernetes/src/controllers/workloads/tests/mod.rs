//! Table tests of the rules, and properties of the packing.

mod endpoints;
mod events;
mod packing;
mod selected;
pub(super) mod world;
