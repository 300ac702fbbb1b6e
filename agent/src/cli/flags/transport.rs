//! A transport protocol, as it is said on the command line.

use clap::ValueEnum;
use shunt_model::Protocol;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(in crate::cli) enum Transport {
    Tcp,
    Udp,
    Sctp,
}

impl Transport {
    /// Which it is.
    pub(in crate::cli) const fn protocol(self) -> Protocol {
        match self {
            Self::Tcp => Protocol::Tcp,
            Self::Udp => Protocol::Udp,
            Self::Sctp => Protocol::Sctp,
        }
    }
}
