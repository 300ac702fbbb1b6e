//! Events from bytes of an unknown sender: never a panic, and what is accepted renders.
//! `cargo xtask fuzz` runs these for longer.

mod damage;
mod lines;
mod messages;
mod receiver;
