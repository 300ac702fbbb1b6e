//! The table against a plain model, under a scheduler, and full.

mod memory;
mod phases;
