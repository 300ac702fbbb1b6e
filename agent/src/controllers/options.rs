//! The controller's settings.

use std::time::Duration;

use crate::{
    controllers::workloads::options::WorkloadOptions, source::kubernetes::watch::client::ApiServer,
};

/// What the controller has to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerOptions {
    /// How the API server is reached.
    pub api_server: ApiServer,
    /// The name of the proxy, if its agents serve only Services that have it as their
    /// `service.kubernetes.io/service-proxy-name`.
    pub proxy_name: Option<String>,
    /// Which workloads outside the cluster become endpoints.
    pub workloads: WorkloadOptions,
    /// What says which of several controllers writes.
    pub lease: LeaseOptions,
}

/// The Lease by which one of several controllers is the one that writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Its namespace; `None`: that of this pod.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What no other controller is called.
    pub identity: String,
    /// How long it lasts: so long nobody writes if the one that does is gone. Whole seconds.
    pub duration: Duration,
    /// How long before its end it is renewed: more than nothing, and less than it lasts.
    pub grace: Duration,
}
