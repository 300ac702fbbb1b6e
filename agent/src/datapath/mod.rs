//! The datapath: frontends and backends in the kernel's tables, programs on interfaces.
//!
//! Nothing here knows of events or services beyond their names: the renderer says which frontends
//! there are to be, [`Publisher`] puts them into [`Tables`] in an order in which no packet ever
//! sees half a change, and [`Attachments`] keeps the programs on the interfaces.

mod allocator;
mod attachment;
mod attachments;
mod batch;
mod clsact;
mod collector;
mod connections;
mod conntrack;
mod counted;
mod counters;
mod error;
mod family;
mod fingerprint;
mod grace;
mod group;
mod headroom;
mod hook;
mod kernel;
mod kernel_tables;
mod lifetime;
mod links;
mod live;
mod memory_tables;
mod node_table;
mod packet_log;
mod pins;
mod publisher;
mod raw;
mod removed_for_room;
mod requirements;
mod shared_array;
mod sweep_schedule;
mod table_sizes;
mod tables;

pub use attachments::{Attachments, InterfaceState};
pub use collector::Collector;
pub use connections::{ConnectionList, Connections, LiveConnection};
pub use conntrack::{Conntrack, Swept};
pub use counters::Counters;
pub use error::{DatapathError, TableError};
pub use kernel::{Datapath, DatapathOptions, PacketLog, Published};
pub use lifetime::{Phase, Timeouts};
pub use links::LinkWatch;
pub use live::{LiveFrontend, LiveKey};
pub use memory_tables::MemoryTables;
pub use packet_log::PacketLogError;
pub use pins::{PinError, Removed, cleanup};
pub use publisher::{Publisher, TableUse};
pub use table_sizes::TableSizes;
pub use tables::{Capacity, Tables};
