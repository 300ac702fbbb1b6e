//! Shunt's agent: renderer events in, frontends and backends in the kernel's tables.
//!
//! The wiring of `shunt-model` (events, renderer), `shunt-datapath` (tables, programs) and
//! `shunt-api` (the published interface): a [source](EventSource) delivers events into a queue, the
//! [`EventLoop`] has the [`Agent`] render and publish them one by one, a [server](Server) shows
//! what is live.

#![forbid(unsafe_code)]

mod controllers;
mod host;
mod runtime;
mod serve;
mod source;

/// Services of a Kubernetes cluster.
pub mod kubernetes {
    pub use crate::source::kubernetes::*;
}

/// Services of a Consul catalog.
pub mod consul {
    pub use crate::source::consul::*;
}

pub use self::{
    controllers::{
        controller::Controller,
        options::{ControllerOptions, LeaseOptions},
        workloads::options::{ProbeLimits, ProbeOptions, RangeOptions, WorkloadOptions},
    },
    host::{
        addresses::host_addresses,
        capabilities::missing_capabilities,
        kernel_settings::{NetfilterConntrack, set_oom_score},
        kube_proxy::rules::{KubeProxyConnections, KubeProxyRules},
        open_files::raise_open_files,
        process::ProcessUse,
        settings::{HostNeeds, HostSettings},
    },
    runtime::{
        agent::Agent,
        circumstances::{Circumstances, Trigger},
        cluster_state::{ClusterMonitor, ClusterNode, ClusterState},
        consul_state::{ConsulMonitor, ConsulState, KnownGateway, StaleWatch},
        contact::Contact,
        dump::lines::DumpLines,
        error::{Ending, InspectError},
        event_loop::EventLoop,
        figures::{Figures, Interfaces, NoLocalEndpoints, SocketHooks},
        frontends::{FrontendList, InspectedFrontend},
        go_duration::GoDuration,
        health::{ByFamily, FamilyHealth, Health, PATIENCE, Pending},
        health_checks::{HealthCheck, HealthCheckChange, HealthChecks},
        held_events::HeldEvents,
        here::{Here, HereWatch},
        host_complaints::HostPart,
        inspector::Inspector,
        ip_family::IpFamily,
        listeners::{Listener, ListenerState, Listeners},
        local_monitor::LocalMonitor,
        lookup::{
            followers::{Concerned, Followers},
            following::Following,
            observed::Observed,
        },
        monitor::watching::{Wanted, Watching},
        origin::Origin,
        outcome::{Acceptance, ApplyError, Outcome},
        queue::{EventQueue, Requests, queue},
        reports::Reports,
        service_changes::{ChangeKind, Changed, ServiceChange, ServiceChanges},
        service_counts::ServiceFigures,
        steering::{Steering, SteeringError},
        terminate::is_gone,
    },
    serve::{
        address::{ListenError, NotAPlace, ServeAddress, ServeListener},
        controller::serve_controller,
        grpc::server::Server,
        http::server::{HttpError, HttpListeners, HttpOptions, HttpServer},
        linkerd::{
            server::LinkerdServer,
            settings::{LinkerdSettings, OpaquePorts},
        },
        local_api::{primary::FederationServer, server::LocalApiServer},
        socket_file::{SocketError, SocketFile},
        ui::{
            server::UiServer,
            settings::UiSettings,
            token::{UiToken, UiTokenError},
        },
    },
    source::{
        event_source::EventSource,
        file::{FileSource, Input},
        local::{
            definition::file::DefinitionError,
            federation::{
                keep::FederationKeeper,
                options::{FederationError, FederationOptions},
                shared::Federation,
                token::TokenError,
            },
            keeper::{KeepError, Keeper},
            limits::HttpChecks,
            monitor::local_monitor,
            options::LocalOptions,
            registrar::{LocalNode, Registrar, ReloadError},
            source::{FrontendsError, LocalSource, OfferedFrontends, Shown},
            store::StoreError,
        },
        reader::read_lines,
        socket::{Calls, SocketSource},
    },
};
