//! Which events are asked for.

use clap::{Args, ValueEnum};
use shunt_api::view::{FlowFilter, FlowKind, Place};

use crate::cli::flags::transport::Transport;

/// Which events are meant: those that are all of this.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct FilterArgs {
    /// Those with any end there: 10.1.1.5, 10.1.0.0/16, [fd00::1]:80
    #[arg(value_name = "FILTER")]
    any: Option<Place>,

    /// Those of this kind; may be given several times
    #[arg(short, long, value_enum, value_name = "KIND")]
    kind: Vec<Kind>,

    /// Those for this reason, such as `timed_out` or `drop_no_backend`; may be given several times
    #[arg(long, value_name = "REASON")]
    reason: Vec<String>,

    /// Those of clients there, or of packets from there
    #[arg(long, value_name = "PLACE")]
    client: Option<Place>,

    /// Those to frontends there: 10.96.0.10:80, or all ports of an address
    #[arg(long, value_name = "PLACE")]
    frontend: Option<Place>,

    /// Those that are served there
    #[arg(long, value_name = "PLACE")]
    backend: Option<Place>,

    /// Those of this protocol
    #[arg(long, value_enum, value_name = "PROTOCOL", ignore_case = true)]
    protocol: Option<Transport>,

    /// Those of this service, NAMESPACE/NAME or NAMESPACE/NAME:PORT
    #[arg(short, long, value_name = "SERVICE")]
    service: Option<String>,
}

/// A kind of event, by the name that it is shown with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A connection began
    Opened,
    /// A connection ended
    Ended,
    /// A packet was rejected, and its sender told
    Refused,
    /// A packet was dropped
    Dropped,
}

impl From<Kind> for FlowKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Opened => Self::Opened,
            Kind::Ended => Self::Ended,
            Kind::Refused => Self::Refused,
            Kind::Dropped => Self::Dropped,
        }
    }
}

impl FilterArgs {
    /// The events that are meant; `only_packets`: connections are left out.
    pub(super) fn filter(&self, only_packets: bool) -> FlowFilter {
        let Self {
            any,
            kind,
            reason,
            client,
            frontend,
            backend,
            protocol,
            service,
        } = self;
        let mut kinds: Vec<FlowKind> = kind.iter().map(|kind| (*kind).into()).collect();
        if only_packets && kinds.is_empty() {
            kinds = vec![FlowKind::Refused, FlowKind::Dropped];
        }
        FlowFilter {
            kinds,
            reasons: reason.clone(),
            client: *client,
            frontend: *frontend,
            backend: *backend,
            any: *any,
            protocol: protocol.map(|protocol| protocol.protocol().into()),
            service: service.clone(),
        }
    }
}
