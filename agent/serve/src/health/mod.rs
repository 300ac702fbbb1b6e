//! Health: the agent's, for the cluster and for kubelet's probes, and that of services, for load balancers.

pub(crate) mod probes;
pub(crate) mod proxy;
pub(crate) mod services;
