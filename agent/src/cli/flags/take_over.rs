//! Taking over from kube-proxy.

use clap::{Args, ValueEnum};

/// Condition under which connections that are not known are left to kube-proxy's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TakeOver {
    /// While kube-proxy's rules are on this host, and connections that they have translated
    #[default]
    Auto,
    /// Always
    #[value(hide = true)]
    On,
    /// Never
    Off,
}

/// Taking over from kube-proxy.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "kube-proxy on this node")]
pub(crate) struct TakeOverArgs {
    /// Condition under which packets to services that begin no connection, and are of none that is known, go on to the
    /// host's stack, where kube-proxy's rules have translated theirs: so these live on, and new ones are Shunt's.
    /// Otherwise such a packet opens a connection
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    take_over: TakeOver,
}

impl TakeOverArgs {
    /// Returns that condition.
    pub(crate) const fn mode(self) -> TakeOver {
        self.take_over
    }
}
