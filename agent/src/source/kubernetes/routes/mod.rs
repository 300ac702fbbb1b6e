//! Routes and their like, and what they make of services: a pure function of the objects that are known.
//!
//! ```text
//! book        all that is known of them, and of grants; which services a change concerns
//!     v
//! attach      which ports of a Service a route is for, or why it is for none
//! backends    what its rule sends connections to, or why that is refused
//!     v
//! splits      of each port of a Service: the oldest route, else what a mesh splits it by
//! mesh        the oldest ServiceProfile, else the oldest TrafficSplit
//! conditions  what a route's status is to say of each of its parents
//! ```

mod attach;
mod backends;
pub(crate) mod book;
pub(crate) mod change;
mod claims;
pub(crate) mod conditions;
mod grants;
mod mesh;
mod splits;
#[cfg(test)]
mod tests;
pub(crate) mod verdict;
