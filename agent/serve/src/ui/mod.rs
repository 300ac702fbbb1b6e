//! The page that shows the agent, and what it asks for: `docs/ui.md`. Its requests change nothing.

mod api;
mod assets;
mod catalog;
mod chosen;
mod connections;
mod door;
mod events;
mod hosts;
mod live;
mod parameters;
mod rates;
mod sampler;
pub(crate) mod server;
mod service;
mod sessions;
pub(crate) mod settings;
mod sign_in;
mod status;
pub(crate) mod token;
mod topology;
mod trace;
mod turn;
