//! Filters for events.

use clap::{Args, ValueEnum};
use shunt_api::view::{FlowFilter, FlowKind, Place};

use crate::cli::flags::ends::EndArgs;

/// Filters for events; all must match.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct FilterArgs {
    /// Filter by any end: 10.1.1.5, 10.1.0.0/16, [fd00::1]:80
    #[arg(value_name = "FILTER")]
    any: Option<Place>,

    /// Filter by kind; may be given several times
    #[arg(short, long, value_enum, value_name = "KIND")]
    kind: Vec<Kind>,

    /// Filter by reason, such as `timed_out` or `drop_no_backend`; may be given several times
    #[arg(long, value_name = "REASON")]
    reason: Vec<String>,

    #[command(flatten)]
    ends: EndArgs,

    /// Filter by service, NAMESPACE/NAME or NAMESPACE/NAME:PORT
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
    /// A packet was rejected, and its sender notified
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
            ends,
            service,
        } = self;
        let mut kinds: Vec<FlowKind> = kind.iter().map(|kind| (*kind).into()).collect();
        if only_packets && kinds.is_empty() {
            kinds = vec![FlowKind::Refused, FlowKind::Dropped];
        }
        FlowFilter {
            kinds,
            reasons: reason.clone(),
            client: ends.client,
            frontend: ends.frontend,
            backend: ends.backend,
            any: *any,
            protocol: ends.protocol(),
            service: service.clone(),
        }
    }
}
