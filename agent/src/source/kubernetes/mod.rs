//! Services of a Kubernetes cluster: reduced to what is read, and translated by a pure function.

mod objects;
mod translate;

pub use self::{
    objects::{
        address::{Address, Range},
        endpoint_slice::{Conditions, EndpointSlice, Hints, SliceEndpoint, SlicePort},
        node::{Node, PrimaryAddresses},
        service::{Service, ServiceKind, ServicePort},
        service_cidr::ServiceCidr,
    },
    translate::{
        problem::Problem,
        service::{HealthCheck, Translation, translate},
        view::NodeView,
    },
};
