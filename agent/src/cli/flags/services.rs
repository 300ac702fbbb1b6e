//! The counts of each service port, and where they are shown.

use clap::Args;

use crate::cli::flags::switch::Switch;

/// Counts of each service port, and where they are shown.
#[derive(Debug, Clone, Copy, Args)]
#[expect(clippy::duplicated_attributes, reason = "both are switches")]
#[command(
    mut_arg("count_service_traffic", Switch::flag),
    mut_arg("service_metrics", Switch::flag)
)]
pub(crate) struct ServiceCountArgs {
    /// Count the packets and bytes of each service port too, besides its connections and what was
    /// rejected or dropped: some nanoseconds a packet
    #[arg(long, value_name = "BOOL", default_value_t)]
    pub(crate) count_service_traffic: Switch,

    /// Show the counts of each service port among the metrics: one series a service port, four more with
    /// --count-service-traffic, and one for each reason for which something was refused
    #[arg(long, value_name = "BOOL", default_value_t = Switch::ON)]
    pub(crate) service_metrics: Switch,
}
