//! Halves of the connection table for which a packet is looked up, and the result.

use shunt_common::connections::{self, Key, Role, Wide};

use crate::maps::conntrack::Words;

/// The half of a connection that a packet was found to be of.
pub(crate) type Half = connections::Half<Words>;

/// The half that a packet is looked for as.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    /// It is the client's.
    Forward,
    /// It is the backend's.
    Reply,
    /// It is for a backend, and this is the half that an answer would be of.
    Answer,
    /// It comes from a frontend, and this is the half that packets of a client at its other end would
    /// be of.
    Client,
}

impl Wanted {
    /// Makes the key of a client's packet that of the half.
    #[inline(always)]
    pub(crate) fn change<F: Wide>(self, key: &mut Key<F>) {
        if matches!(self, Self::Answer | Self::Client) {
            key.reverse();
        }
        if matches!(self, Self::Reply | Self::Answer) {
            key.set_role(Role::Reply);
        }
    }
}
