//! The renderer: what we were told, and the frontends that follow from it.
//!
//! One pure function turns a service into frontends; every event is answered by computing them
//! anew for the services that it concerns and comparing with what was there. An event is first
//! [planned](Renderer::plan), and becomes what we know only when its plan is
//! [committed](Renderer::commit): if the datapath refuses the changes, the event had no effect.

mod backend_sets;
mod claims;
mod conflict;
mod draft;
mod entry;
mod error;
mod frontend;
mod host_addresses;
mod nodes;
mod options;
mod plan;
mod render;
mod state;

pub use self::{
    conflict::Conflict,
    error::RenderError,
    frontend::{Backend, BackendSet, Clients, Frontend, FrontendKey, FrontendKind, Refusal},
    host_addresses::host_addresses,
    nodes::NodeAddresses,
    options::RenderOptions,
    plan::{Changes, Plan},
    render::render,
    state::Renderer,
};
