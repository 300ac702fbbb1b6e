//! Lookups from the outside: lines of events in, answers out.

mod answers;
mod endpoints;
mod follow;
mod keys;
mod splits;
mod strategies;
mod world;
