//! What is counted of each service port, and where it is shown.

use clap::{ArgAction, Args};

/// What is counted of each service port, and where it is shown.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ServiceCountArgs {
    /// Count the packets and bytes of each service port too, besides its connections and what was
    /// rejected or dropped: some nanoseconds a packet
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false, hide_default_value = true, hide_possible_values = true,
          action = ArgAction::Set)]
    pub(crate) count_service_traffic: bool,

    /// Show what is counted of each service port among the metrics: one series a service port, four more
    /// with --count-service-traffic, and one for each reason for which something was refused
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) service_metrics: bool,
}
