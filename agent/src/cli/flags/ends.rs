//! Filters for connections, by their ends.

use clap::Args;
use shunt_api::view::{Place, ProtocolNumber};
use shunt_print::transport::Transport;

/// Filters for connections, by their ends; all must match.
#[derive(Debug, Clone, Args)]
pub(crate) struct EndArgs {
    /// Filter by client: 10.1.1.5, 10.1.0.0/16, [fd00::1]:4711
    #[arg(long, value_name = "PLACE")]
    pub(crate) client: Option<Place>,

    /// Filter by frontend: 10.96.0.10:80, or all ports of an address
    #[arg(long, value_name = "PLACE")]
    pub(crate) frontend: Option<Place>,

    /// Filter by backend
    #[arg(long, value_name = "PLACE")]
    pub(crate) backend: Option<Place>,

    /// Filter by protocol
    #[arg(long, value_enum, value_name = "PROTOCOL", ignore_case = true)]
    protocol: Option<Transport>,
}

impl EndArgs {
    /// The protocol by its number.
    pub(crate) fn protocol(&self) -> Option<ProtocolNumber> {
        self.protocol.map(|protocol| protocol.protocol().into())
    }
}
