//! A transport protocol, as the command line has it.

use clap::ValueEnum;
use shunt_model::Protocol;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(in crate::cli) enum Transport {
    Tcp,
    Udp,
    Sctp,
}

impl Transport {
    /// Returns the protocol.
    pub(in crate::cli) const fn protocol(self) -> Protocol {
        match self {
            Self::Tcp => Protocol::Tcp,
            Self::Udp => Protocol::Udp,
            Self::Sctp => Protocol::Sctp,
        }
    }
}
