//! The datapath: frontends and backends in the kernel's tables, programs on interfaces.
//!
//! Nothing here knows of events or services beyond their names: the renderer decides which frontends
//! there are to be, [`DualPublisher`] puts them into [`Tables`] in an order in which no packet ever
//! sees half a change, and [`Datapath`] keeps the programs on the interfaces.

#![deny(unsafe_code)]

mod attach;
mod conntrack;
mod datapath;
mod error;
mod handover;
mod maps;
mod netlink;
mod object;
mod pins;
mod publish;
mod routes;
mod sweep;
#[expect(unsafe_code, reason = "what no crate wraps")]
mod sys;

pub use self::{
    attach::{
        attachments::{InterfaceState, InterfaceStatus},
        filter_watch::{FilterWatch, RemovedFilters},
        interface_watch::InterfaceWatch,
        sockets::SocketStatus,
        uplink::{UplinkState, UplinkStatus},
    },
    conntrack::{
        connections::{ConnectionList, Connections, LiveConnection},
        scanner::Scanner,
        state::ConntrackState,
    },
    datapath::{
        Datapath, Machine, cleanup,
        loading::{Loading, StopLoading},
        mount_bpffs, mount_root_cgroup,
    },
    error::{DatapathError, SocketError, TableError},
    maps::{
        counters::Counters,
        families::Families,
        flow_ring::{
            Flow, FlowChoice, FlowConnection, FlowEnd, FlowPacket, FlowReader, is_sampled,
        },
        location_table::LocationsBefore,
        memory_tables::MemoryTables,
        node_table::NodeBefore,
        service_table::{ServiceCounts, TrafficCounts},
        table_sizes::{TableSizes, Uses},
        table_use::TableUse,
        tables::{Capacity, Tables},
        variables::UnknownConnections,
    },
    netlink::{dump::dump as netlink_dump, stacked::stacked_devices},
    object::{
        copies::{Contents, TableCopies, TableCopy},
        flow_programs::{FlowLoader, FlowPrograms},
        guard::GuardOptions,
        options::{DatapathOptions, PacketLog},
        packet_log::PacketLogError,
        pods::{PodDetection, PodInterfaces},
        reject_limit::RejectLimit,
        sockets::{SocketLb, SocketOptions},
        timeouts::Timeouts,
        xdp::{XdpMode, XdpOptions},
    },
    pins::{cleanup::Removed, directory::has_tables, error::PinError},
    publish::{
        dual_publisher::{DualPublisher, LiveReader},
        maglev::{MadeTable, MaglevUse, ReadyTables, Recipe as MaglevRecipe},
        read_back::{LiveFrontend, key::LiveKey, sources::SourceRanges},
        services::{CountedService, Services},
    },
    routes::{Known as KnownRoutes, ask::interface_to},
    sweep::{
        stale::{Cured, IsGone, StaleConnection, StaleSockets},
        sweeper::Sweeper,
        unlisted::Unlisted,
    },
    sys::{
        heap::release as release_memory,
        jiffies::{Jiffies, monotonic},
        route_lookup::RouteLookup,
    },
};
