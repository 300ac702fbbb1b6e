//! What stands in a packet: layouts of headers, and how they are read. Nothing here writes, and
//! nothing knows a table.

pub mod error;
pub mod extensions;
pub mod family;
pub mod inner;
pub mod ipv4;
pub mod ipv6;
pub mod link;
pub mod network;
pub mod offset;
pub mod parse;
pub mod parsed;
pub mod segment;
pub mod transport;
