//! An agent's state as values: each is made of its message, becomes its message, and has one
//! form in JSON.

mod connection;
mod connection_filter;
mod consul;
mod error;
mod federation;
mod flow_event;
mod flow_filter;
mod frontend;
mod frontend_filter;
mod listener;
mod local_api;
mod lookup;
mod maglev;
mod monitor_use;
mod overrides;
mod protocol;
mod service_counters;
mod socket_lb;
mod source;
mod split;
mod stale_sockets;
mod status;
mod take_over;
mod text;
mod unlocated;
mod uplink;
mod workload;

pub use self::{
    connection::{Connection, ConnectionState, End},
    connection_filter::{ConnectionFilter, Place},
    consul::{Consul, FailedOver, Gateway, StaleWatch},
    error::{BadFilter, Malformed},
    federation::Federation,
    flow_event::{FlowEvent, FlowKind, FlowPacket, one_in},
    flow_filter::FlowFilter,
    frontend::{Backend, Difference, Frontend, FrontendKey, with_shares},
    frontend_filter::FrontendFilter,
    listener::Listener,
    local_api::LocalApi,
    lookup::{
        answer::{Answer, Membership},
        change::{Change, Empty},
        endpoint::{BehindEndpoint, EndpointKey},
        target::{ServiceTarget, Target, Who},
    },
    maglev::MaglevTables,
    monitor_use::MonitorUse,
    overrides::{HeldRemoval, LiveOverride, Override},
    protocol::ProtocolNumber,
    service_counters::{ServiceCounters, ServiceTraffic},
    socket_lb::{SocketLb, SocketLbMode},
    source::{Source, SourceNode, UnreadableObject, Untranslated},
    split::{Split, SplitBackend, Target as SplitTarget},
    stale_sockets::StaleSockets,
    status::{
        Conflict, FrontendDifference, Interface, InterfaceState, LastError, Status, TableUse,
    },
    take_over::TakeOver,
    unlocated::Unlocated,
    uplink::{Uplink, UplinkState},
    workload::{HostPort, Mesh, Workload, WorkloadPort},
};
