//! linkerd's outbound policies, `io.linkerd.proxy.outbound.OutboundPolicies`, of services.
//!
//! ```text
//! service   the calls, and their targets
//!     v
//! policy    the policy of a service's port
//!     v
//! shares    the destinations of its connections: the service, or the backends of its split
//!     v
//! routes    the same as routes of HTTP and of opaque connections
//! ```

mod policy;
mod routes;
pub(super) mod service;
mod shares;
