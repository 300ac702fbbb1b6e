//! The renderer: the known services and nodes, and the frontends that follow from them.
//!
//! One pure function turns a service into frontends; every event is answered by computing them
//! anew for the services that it concerns and comparing with what was there. An event is first
//! [planned](crate::Renderer::plan), and becomes what we know only when its plan is
//! [committed](crate::Renderer::commit): if the datapath refuses the changes, the event had no effect.

pub(crate) mod age;
pub(crate) mod backend_sets;
pub(crate) mod claims;
pub(crate) mod comparison;
pub(crate) mod conflict;
pub(crate) mod draft;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod followers;
pub(crate) mod footprint;
pub(crate) mod frontend;
pub(crate) mod health_check_ports;
pub(crate) mod locations;
pub(crate) mod members;
pub(crate) mod nodes;
mod notable;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod port_sets;
pub(crate) mod reach;
pub(crate) mod rendered;
pub(crate) mod renderer;
pub(crate) mod rendering;
pub(crate) mod residents;
pub(crate) mod shares;
pub(crate) mod split_sets;
pub(crate) mod split_target;
pub(crate) mod state;
