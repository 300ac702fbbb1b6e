//! Services of a Kubernetes cluster: watched, reduced to the fields in use, and translated by a pure
//! function.
//!
//! ```text
//! watch/      one task a kind of objects: list, then watch; what is cut off is taken up again
//!     v  Step: all there is, or the news
//! store       objects, reduced (objects/), and the service that a change concerns; routes/: those
//!             that share a service's connections out
//!     v
//! engine      one event a changed service, made by translate/; notices for users: notices/
//!     v
//! source      delivers one event after the other, and waits for its outcome
//! ```
//!
//! Beside these: the controllers, which write to a cluster (controllers).

#![forbid(unsafe_code)]

mod controllers;
mod engine;
#[cfg(test)]
mod engine_tests;
mod failures;
mod links;
mod machines;
#[cfg(test)]
mod mutated;
mod node_ports;
mod notices;
mod objects;
mod options;
mod pending;
mod pods;
mod report;
mod routes;
mod source;
mod store;
mod translate;
mod watch;

pub use self::{
    controllers::{
        controller::Controller,
        meters::{ControllerMeters, WorkloadMeters},
        options::{ControllerOptions, LeaseOptions},
        workloads::{
            allowed::RangeOptions,
            options::{ProbeOptions, WorkloadOptions},
            probes::places::ProbeLimits,
        },
    },
    node_ports::NodePortAddresses,
    objects::{
        address::{Address, Range},
        endpoint_slice::{Conditions, EndpointSlice, Hints, SliceEndpoint, SlicePort},
        node::{Node, PrimaryAddresses},
        service::{Service, ServiceKind, ServicePort},
        service_cidr::ServiceCidr,
    },
    options::{KubernetesOptions, LookupPods, node_name},
    source::KubernetesSource,
    translate::{
        problem::Problem,
        service::{Translation, translate},
        view::{Daemon, HostPorts, Limits, NodeView},
    },
    watch::{
        client::{ApiServer, ApiServerError},
        pod_cidrs::PodCidrsError,
    },
};
