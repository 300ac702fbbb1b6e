//! The handling of packets for services' addresses that are for none of their frontends.

use clap::Args;
use shunt_datapath::GuardOptions;

use crate::cli::flags::switch::Switch;

/// Handling of packets for services' addresses that are for none of their frontends.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Guard")]
#[expect(clippy::duplicated_attributes, reason = "both are switches")]
#[command(mut_arg("guard", Switch::flag), mut_arg("answer_echo", Switch::flag))]
pub(crate) struct GuardArgs {
    /// Reject packets for another port or protocol of a service's ClusterIP, drop those for an
    /// address of a ServiceCIDR that no service has, and those for an external or load balancer
    /// address that would go back to where they came from [default: true with --kubernetes, unless
    /// --service-proxy-name leaves Services to another proxy]
    #[arg(long, value_name = "BOOL")]
    guard: Option<Switch>,

    /// Answer echo requests (ping) for ClusterIPs, external and load balancer addresses
    #[arg(long, value_name = "BOOL", default_value_t = Switch::ON)]
    answer_echo: Switch,
}

impl GuardArgs {
    /// Returns the settings; `by_default`: whether there is a guard without the flag.
    pub(crate) fn guard(&self, by_default: bool) -> GuardOptions {
        GuardOptions {
            guard: self.guard.map_or(by_default, Switch::is_on),
            echo: self.answer_echo.is_on(),
        }
    }
}
