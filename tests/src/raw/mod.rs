//! Packets of nobody's: written by hand, sent by a raw socket, as fast as one likes.

mod pace;
mod packet;
mod wire;

pub use self::{
    pace::Pace,
    packet::{Packet, What},
    wire::Wire,
};
