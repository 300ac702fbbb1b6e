//! Packets without a real sender: written by hand, sent by a raw socket, at any rate.

mod pace;
mod packet;
mod wire;

pub use self::{
    pace::Pace,
    packet::{Packet, What},
    wire::Wire,
};
