//! Events as messages of the gRPC interface.
//!
//! A message becomes the unchecked form of an event, as a line of JSON does, and then goes through
//! the same check: what is wrong with it is said in the same words.

mod assembler;
mod decode;
mod encode;
mod pieces;
mod service;
mod unchecked;

pub use self::{
    assembler::Assembler,
    decode::decode,
    encode::encode,
    pieces::pieces,
    service::{forwarding, policy, selection},
};
