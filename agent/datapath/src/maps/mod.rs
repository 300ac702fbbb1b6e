//! The kernel's maps: what they are called, how large they are, how they are read and written.

pub(crate) mod address_filter;
pub(crate) mod clock;
pub(crate) mod connection_table;
pub(crate) mod counted;
pub(crate) mod counters;
pub(crate) mod dsr_frontends;
pub(crate) mod dsr_use;
pub(crate) mod families;
pub(crate) mod family;
pub(crate) mod flow_ring;
pub(crate) mod guard_table;
pub(crate) mod interface_set;
pub(crate) mod kernel_services;
pub(crate) mod kernel_tables;
pub(crate) mod location_table;
pub(crate) mod memory_services;
pub(crate) mod memory_tables;
pub(crate) mod node_table;
pub(crate) mod peers;
pub(crate) mod service_table;
pub(crate) mod station_table;
pub(crate) mod table_sizes;
pub(crate) mod table_use;
pub(crate) mod tables;
pub(crate) mod unknown_connections;
pub(crate) mod uplink_table;
