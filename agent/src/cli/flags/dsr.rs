//! Direct server return.

use clap::Args;

use crate::cli::flags::switch::Switch;

/// Direct server return.
#[derive(Debug, Clone, Copy, Args)]
#[command(mut_arg("dsr_lower_mss", Switch::flag))]
pub(crate) struct DsrArgs {
    /// Have backends of services with --forwarding dsr announce segments that fit into an envelope, so that
    /// TCP clients need not be told that theirs do not
    #[arg(long, value_name = "BOOL", default_value_t = Switch::ON)]
    pub(crate) dsr_lower_mss: Switch,
}
