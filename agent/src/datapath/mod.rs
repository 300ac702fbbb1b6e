//! The datapath: frontends and backends in the kernel's tables, programs on interfaces.
//!
//! Nothing here knows of events or services beyond their names: the renderer says which frontends
//! there are to be, [`DualPublisher`] puts them into [`Tables`] in an order in which no packet ever
//! sees half a change, and [`Attachments`] keeps the programs on the interfaces.

mod allocator;
mod attachment;
mod attachments;
mod batch;
mod clock;
mod clsact;
mod collector;
mod connection;
mod connections;
mod conntrack;
mod conntrack_table;
mod constants;
mod counted;
mod counters;
mod dual_publisher;
mod error;
mod families;
mod family;
mod fingerprint;
mod grace;
mod group;
mod headroom;
mod hook;
mod kernel;
mod kernel_tables;
mod lifetime;
mod link_layer;
mod links;
mod live;
mod memory_tables;
mod node_table;
mod options;
mod packet_log;
mod peers;
mod pins;
mod publisher;
mod raw;
mod reject_limit;
mod removed_for_room;
mod requirements;
mod shared_array;
mod sweep_schedule;
mod table_names;
mod table_sizes;
mod tables;

pub use attachments::{Attachments, InterfaceState};
pub use collector::Collector;
pub use connections::{ConnectionList, Connections, LiveConnection};
pub use conntrack::{Conntrack, Swept};
pub use counters::Counters;
pub use dual_publisher::DualPublisher;
pub use error::{DatapathError, TableError};
pub use families::Families;
pub use kernel::Datapath;
pub use lifetime::{Phase, Timeouts};
pub use links::LinkWatch;
pub use live::{LiveFrontend, LiveKey};
pub use memory_tables::MemoryTables;
pub use options::{DatapathOptions, PacketLog};
pub use packet_log::PacketLogError;
pub use pins::{PinError, Removed, cleanup};
pub use publisher::TableUse;
pub use reject_limit::RejectLimit;
pub use table_sizes::TableSizes;
pub use tables::{Capacity, Tables};
