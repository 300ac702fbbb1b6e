//! Events as messages of the gRPC interface.
//!
//! A message is brought into the form of a JSON line, which only says the same in another shape,
//! and then goes through the same checks; what is wrong with it is said in the same words.

mod assembler;
mod decode;
mod encode;
mod pieces;
mod shape;

pub use self::{
    assembler::Assembler,
    decode::decode,
    encode::{encode, policy, protocol},
    pieces::{SnapshotBuilder, pieces},
};
