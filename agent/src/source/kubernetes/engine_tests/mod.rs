//! What the renderer is told, for what the watches tell.

mod beginning;
mod changes;
mod circumstances;
mod node;
mod notices;
mod peers;
mod world;
