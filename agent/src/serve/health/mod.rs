//! Health: the agent's, for the cluster, and that of services, for load balancers.

pub(crate) mod proxy;
pub(crate) mod services;
