//! Contents of a packet: layouts of headers, and how they are read. Nothing here writes, and
//! nothing knows a table.

pub(crate) mod error;
pub(crate) mod extensions;
pub(crate) mod family;
pub(crate) mod foreign;
pub(crate) mod inner;
pub(crate) mod ipv4;
pub(crate) mod ipv6;
pub(crate) mod link;
pub(crate) mod log;
pub(crate) mod network;
pub(crate) mod offset;
pub(crate) mod parse;
pub(crate) mod parsed;
pub(crate) mod segment;
pub(crate) mod transport;
