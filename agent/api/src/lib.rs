//! The published gRPC interface, `agent/proto/shunt/v1`: types, clients and servers, and events as
//! messages. It is what a client of another process links.

#![forbid(unsafe_code)]

pub mod message;
pub mod proto;
