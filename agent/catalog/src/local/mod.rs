//! Services that are registered with this agent itself, in the form of Consul's agent: for hosts without
//! one.
//!
//! A [definition] that is registered becomes part of the [state]: the registrations, their status by their checks, and
//! the effects of each change on others. The [registrar] shares that; a change is [written](writer) before it takes
//! effect. [Checks](checks) are run, within [limits]; clients that wait for a service are [woken](waiters). Gateways of
//! other datacenters come from a [federation] of agents. `docs/local-api.md` lists the parts of Consul's own agent that
//! are here, and those that are not.

mod checks;
pub(crate) mod definition;
pub(crate) mod federation;
mod instances;
pub(crate) mod keeper;
pub(crate) mod limits;
pub(crate) mod monitor;
pub(crate) mod options;
pub(crate) mod registrar;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod store;
#[cfg(test)]
mod tests;
mod waiters;
mod writer;
