//! Definitions of services and checks as Consul's clients write them: JSON, read leniently where Consul
//! is lenient, and refused where Consul refuses.

pub(crate) mod check;
pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod proxy;
pub(crate) mod service;
