//! The table against a plain model, under a scheduler, and full.

mod fill;
mod integrity;
mod memory;
mod mend;
mod model;
mod phases;
mod proof;
mod races;
mod snapshot;
