//! The running agent: the event loop, the queue to it, and what it shows of itself.
//!
//! All that is asked of the agent goes through one queue and is done one at a time. Sources hold
//! the end of the queue that takes events, servers an [`Inspector`](inspector::Inspector).

#![forbid(unsafe_code)]

mod acknowledgements;
mod agent;
mod agent_access;
mod aside;
mod borrowed;
mod circumstances;
mod cluster_state;
mod compare_services;
mod conntrack;
mod consul_state;
mod consul_status;
mod contact;
mod disputes;
mod dump;
mod error;
mod event_loop;
mod figures;
mod flow_meters;
mod frontend_list;
mod frontends;
mod go_duration;
mod health;
mod health_checks;
mod held_events;
mod held_removal;
mod here;
mod history;
mod host_complaints;
mod inspector;
mod ip_family;
mod limit;
mod listeners;
mod local_monitor;
mod lookup;
mod meters;
mod monitor;
mod origin;
mod outcome;
mod pairs;
mod priority;
mod queue;
mod read_back;
mod removal;
mod reports;
mod request;
mod rest_client;
mod room;
mod service_changes;
mod service_counts;
mod status;
mod steering;
mod table_flags;
mod table_maker;
mod terminate;
mod waits;

pub use self::{
    agent::Agent,
    borrowed::Borrowed,
    circumstances::{Circumstances, Trigger},
    cluster_state::{ClusterMonitor, ClusterNode, ClusterState, UnreadableObject},
    consul_state::{ConsulMonitor, ConsulState, KnownGateway, StaleWatch},
    contact::Contact,
    dump::lines::DumpLines,
    error::{Ending, InspectError},
    event_loop::EventLoop,
    figures::{Figures, Interfaces, NoLocalEndpoints, OverrideCounts, SocketHooks, Uplinks},
    flow_meters::FlowMeters,
    frontend_list::FrontendList,
    frontends::InspectedFrontend,
    go_duration::GoDuration,
    health::{ByFamily, FamilyHealth, Health, PATIENCE, Pending},
    health_checks::{HealthCheck, HealthCheckChange, HealthChecks},
    held_events::HeldEvents,
    here::{Here, HereWatch},
    host_complaints::HostPart,
    inspector::Inspector,
    ip_family::IpFamily,
    limit::Limit,
    listeners::{Listener, ListenerState, Listeners},
    local_monitor::LocalMonitor,
    lookup::{
        followers::{Concerned, Followers},
        following::Following,
        observed::Observed,
    },
    meters::{Label, Labels, Meters, Told},
    monitor::watching::{Wanted, Watching},
    origin::Origin,
    outcome::{Acceptance, ApplyError, Consequences, ControlError, Fate, Outcome, Refusal, fate},
    pairs::{Extent, Pairs, pair_of},
    priority::give_way,
    queue::{EventQueue, Requests, queue},
    reports::Reports,
    request::Decision,
    rest_client::RestClient,
    service_changes::{ChangeKind, Changed, ServiceChange, ServiceChanges},
    service_counts::ServiceFigures,
    steering::{Steering, SteeringError},
    terminate::is_gone,
    waits::{after, come, until},
};
