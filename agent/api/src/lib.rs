//! The published gRPC interface, `agent/proto/shunt/v1`: types, clients and servers, and events as
//! messages, and what the agent shows as values. It is what a client of another process links.

#![forbid(unsafe_code)]

pub mod message;
pub mod proto;
pub mod view;

/// The messages and methods as a `FileDescriptorSet` of protobuf, for clients that do not know
/// them.
pub const DESCRIPTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shunt.bin"));

/// The longest message that agent and client take, in bytes: as long as the longest line of an
/// event file.
pub const MESSAGE_LIMIT: usize = 256 << 20;
