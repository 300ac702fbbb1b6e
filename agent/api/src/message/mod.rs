//! Events as messages of the gRPC interface.
//!
//! A message becomes the unchecked form of an event, as a line of JSON does, and then goes through
//! the same check: a fault in it is reported in the same words.

mod answer_pieces;
mod assembler;
mod decode;
mod encode;
mod lookup;
mod pieces;
mod service;
mod unchecked;
mod unchecked_field;
mod unchecked_workload;
mod workload;

pub use self::{
    answer_pieces::{
        join_lookup, join_services, join_watch, lookup_pieces, services_pieces, watch_pieces,
    },
    assembler::Assembler,
    decode::decode,
    encode::encode,
    lookup::{answer, delta},
    pieces::pieces,
    service::{forwarding, masquerade, policy, selection, split_backend, split_mode},
};
