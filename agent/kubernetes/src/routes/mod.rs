//! Routes and their like, and their effect on services: a pure function of the objects that are known.
//!
//! ```text
//! book        all that is known of them, and of grants; the services that a change concerns
//!     v
//! attach      the ports of a Service that a route is for, or why it is for none
//! backends    the destinations of its rule, or why they are refused
//!     v
//! splits      of each port of a Service: the oldest route, else the split of a mesh
//! mesh        the oldest ServiceProfile, else the oldest TrafficSplit
//! proxy_settings  what ServiceProfiles have for proxies, also for those of other namespaces
//! conditions  the contents of a route's status for each of its parents
//! ```

mod attach;
mod backends;
pub(crate) mod book;
pub(crate) mod change;
mod claims;
pub(crate) mod conditions;
mod grants;
mod mesh;
mod proxy_settings;
mod splits;
#[cfg(test)]
mod tests;
pub(crate) mod verdict;
