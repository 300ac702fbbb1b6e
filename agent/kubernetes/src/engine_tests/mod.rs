//! The events for the renderer, by the news of the watches.

mod beginning;
mod changes;
mod circumstances;
mod delivery;
mod failures;
mod mutants;
mod node;
mod notices;
mod peers;
mod pods;
mod routes;
mod world;
