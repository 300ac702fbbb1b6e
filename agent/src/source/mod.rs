//! Where events come from. A source knows the queue that takes them, and nothing else.

#[cfg(feature = "consul")]
pub(crate) mod consul;
pub(crate) mod event_source;
pub(crate) mod file;
#[cfg(any(feature = "consul", feature = "local-api"))]
#[cfg_attr(
    not(feature = "consul"),
    expect(dead_code, reason = "some of it is for what only Consul tells")
)]
pub(crate) mod instances;
pub(crate) mod kubernetes;
#[cfg(feature = "local-api")]
pub(crate) mod local;
pub(crate) mod reader;
pub(crate) mod socket;
