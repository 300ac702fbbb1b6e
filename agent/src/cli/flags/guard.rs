//! What becomes of packets for services' addresses that are for none of their frontends.

use clap::{ArgAction, Args};
use shunt_datapath::GuardOptions;

/// What becomes of packets for services' addresses that are for none of their frontends.
#[derive(Debug, Clone, Args)]
pub(crate) struct GuardArgs {
    /// Reject packets for another port or protocol of a service's ClusterIP, drop those for an
    /// address of a ServiceCIDR that no service has, and those for an external or load balancer
    /// address that would go back to where they came from [default: true with --kubernetes]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set)]
    guard: Option<bool>,

    /// Answer echo requests (ping) for ClusterIPs, external and load balancer addresses
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    answer_echo: bool,
}

impl GuardArgs {
    /// The settings; `by_default`: whether there is a guard if nothing says so.
    pub(crate) fn guard(&self, by_default: bool) -> GuardOptions {
        GuardOptions {
            guard: self.guard.unwrap_or(by_default),
            echo: self.answer_echo,
        }
    }
}
