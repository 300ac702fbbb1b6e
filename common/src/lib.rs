//! The common part of the kernel programs and the agent: the layouts of the maps, byte for byte,
//! and the pure logic on them.
//!
//! Integers are in the machine's byte order unless a field says "network order". Addresses and
//! ports in keys and entries are in network order, as they stand in a packet, so that the programs
//! never swap them.

#![no_std]

#[cfg(not(target_arch = "bpf"))]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod affinity;
mod backend;
mod checksum;
mod cidr;
pub mod connections;
mod counter;
pub mod crc32c;
pub mod dsr;
mod elapsed;
mod family;
pub mod feeder;
mod flow_event;
mod fragment;
mod frontend;
mod guard;
mod interface_role;
mod ipv6_program;
pub mod maglev;
mod node;
mod path;
mod ports;
mod protocol;
pub mod registry;
mod service;
mod slot;
pub mod socket;
mod source_range;
mod station;
mod tuple;
mod uplink;
pub mod variables;

pub use affinity::{AffinityEntry, AffinityKey};
pub use backend::{Backend, BackendConnections};
pub use checksum::{Folded, Sum};
pub use cidr::{Cidr, PodCidrs};
pub use counter::Counter;
pub use elapsed::elapsed;
pub use family::{Address, Family, V4, V6};
pub use flow_event::{
    ConnectionRecord, EndCause, FlowControl, FlowEnds, FlowHead, FlowKind, PACKET_BYTES,
    PacketRecord, Sample, sample, threshold,
};
pub use fragment::{FragmentEntry, FragmentKey, Hook};
pub use frontend::{Cell, FrontendKey};
pub use guard::{FilterPlace, Guarded, ServiceCidrs, port_group};
pub use interface_role::InterfaceRole;
pub use ipv6_program::Ipv6Program;
pub use node::NodeIps;
pub use path::Path;
pub use ports::{PortRange, Probes};
pub use protocol::{SCTP, TCP, UDP};
pub use service::{ServiceEntry, ServiceNumber, ServiceTraffic};
pub use slot::Slot;
#[cfg(not(target_arch = "bpf"))]
pub use slot::fill_slots;
pub use source_range::SourceRange;
pub use station::StationPlace;
pub use tuple::Tuple;
pub use uplink::Uplink;
