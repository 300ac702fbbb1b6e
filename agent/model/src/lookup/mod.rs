//! Who is behind an address: what the renderer knows, asked by address or by service.
//!
//! A [`Query`](query::Query) has an [`Answer`](answer::Answer), which
//! [`Renderer::lookup`](crate::Renderer::lookup) gives. Whoever follows a query is told the
//! [`Delta`](delta::Delta) of two answers.

pub(crate) mod answer;
pub(crate) mod behind;
pub(crate) mod concern;
pub(crate) mod delta;
pub(crate) mod endpoint;
pub(crate) mod interest;
pub(crate) mod membership;
pub(crate) mod ports;
pub(crate) mod query;
pub(crate) mod resolve;
pub(crate) mod target;
