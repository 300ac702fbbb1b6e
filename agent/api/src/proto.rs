//! The published interface, `agent/proto/shunt/v1`, as Rust.

#![expect(
    missing_docs,
    unused_qualifications,
    clippy::pedantic,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

tonic::include_proto!("shunt.v1");
