//! Owners and endpoints behind an address: lookups in the renderer's state, by address or by
//! service.
//!
//! A [`Query`](query::Query) has an [`Answer`](answer::Answer), which
//! [`Renderer::lookup`](crate::Renderer::lookup) returns. A follower of a query receives the
//! [`Delta`](delta::Delta) of two answers.

pub(crate) mod answer;
pub(crate) mod behind;
pub(crate) mod concern;
pub(crate) mod delta;
pub(crate) mod endpoint;
pub(crate) mod interest;
pub(crate) mod keys;
pub(crate) mod membership;
pub(crate) mod ports;
pub(crate) mod query;
pub(crate) mod resolve;
pub(crate) mod target;
