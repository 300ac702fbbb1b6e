//! A transport protocol, as the command line has it.

use clap::ValueEnum;
use shunt_model::Protocol;

/// A transport protocol.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[expect(
    missing_docs,
    reason = "a text would be help for each value, and the names are all there is"
)]
pub enum Transport {
    Tcp,
    Udp,
    Sctp,
}

impl Transport {
    /// Returns the protocol.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Tcp => Protocol::Tcp,
            Self::Udp => Protocol::Udp,
            Self::Sctp => Protocol::Sctp,
        }
    }
}
