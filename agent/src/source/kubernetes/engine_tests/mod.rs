//! What the renderer is told, for what the watches tell.

mod beginning;
mod changes;
mod circumstances;
mod delivery;
mod failures;
mod node;
mod notices;
mod peers;
mod pods;
mod routes;
mod world;
