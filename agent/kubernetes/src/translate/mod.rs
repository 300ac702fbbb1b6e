//! From a Service, its EndpointSlices and what is known of this node to the model's service: one
//! pure function. The rules are kube-proxy's; `docs/kubernetes.md` lists them.

pub(super) mod endpoints;
pub(super) mod frontends;
pub(super) mod problem;
pub(super) mod service;
#[cfg(test)]
mod tests;
pub(super) mod topology;
pub(super) mod view;
