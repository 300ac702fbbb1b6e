//! Work of one process for a whole cluster, independent of its nodes: the status of routes, and
//! endpoints of workloads outside the cluster ([`workloads`]).
//!
//! ```text
//! watch       routes, Services and grants, as agents watch them
//!     v
//! observed    what follows from all of them for each route (routes)
//!     v
//! controller  one write after the other, as long as this process leads (election)
//!     v
//! writer      reads the route's status, and writes it if ours differs (parents)
//!     v
//! mending     once more, if another writer overwrites it
//! ```

pub(crate) mod controller;
mod election;
mod mending;
pub(crate) mod meters;
mod observed;
pub(crate) mod options;
mod parents;
pub(crate) mod workloads;
mod writer;
