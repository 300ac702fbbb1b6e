//! The controller's settings.

use std::time::Duration;

use crate::{controllers::workloads::options::WorkloadOptions, watch::client::ApiServer};

/// Options of the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerOptions {
    /// Access to the API server.
    pub api_server: ApiServer,
    /// The name of the proxy, if its agents serve only Services that have it as their
    /// `service.kubernetes.io/service-proxy-name`.
    pub proxy_name: Option<String>,
    /// Workloads outside the cluster that become endpoints.
    pub workloads: WorkloadOptions,
    /// Lease that decides which of several controllers writes.
    pub lease: LeaseOptions,
}

/// The Lease by which one of several controllers is the one that writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Its namespace; `None`: that of this pod.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Name that no other controller has.
    pub identity: String,
    /// Duration of the Lease: so long there is no writer if the one that there was is gone. Whole seconds.
    pub duration: Duration,
    /// Time before its end at which a writer stops that cannot renew it: more than nothing, and less than it lasts.
    pub grace: Duration,
}
