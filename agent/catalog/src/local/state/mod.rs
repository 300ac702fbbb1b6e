//! The registrations and their status: pure of any waiting.

pub(crate) mod alias;
pub(crate) mod check;
pub(crate) mod definitions;
pub(crate) mod effects;
pub(crate) mod health;
pub(crate) mod indexes;
pub(crate) mod ports;
pub(crate) mod refusal;
pub(crate) mod register;
pub(crate) mod registry;
pub(crate) mod service;
pub(crate) mod sidecar;
pub(crate) mod status;
