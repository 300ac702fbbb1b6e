//! How long connections are remembered.

use std::time::Duration;

use clap::Args;
use shunt_datapath::Timeouts;

use crate::cli::flags::duration::Seconds;

/// After how long a silence in both directions a connection is forgotten, and how often connections are
/// counted.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Timeouts of connections")]
pub(crate) struct TimeoutArgs {
    /// How long a TCP connection that is ESTABLISHED may be silent
    #[arg(id = "conntrack-tcp-timeout-established", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_established))]
    tcp_established: Seconds,

    /// How long a TCP connection that is CLOSING, ended by one side, may be silent
    #[arg(id = "conntrack-tcp-timeout-close-wait", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_closing))]
    tcp_closing: Seconds,

    /// How long a TCP connection that is CLOSED, reset by one side, may be silent
    #[arg(long = "conntrack-tcp-timeout-closed", hide = true, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_closed))]
    tcp_closed: Seconds,

    /// How long a TCP connection in TIME_WAIT, ended by both sides, may be silent: its backend may
    /// hold the client's address and port for so long
    #[arg(long = "conntrack-tcp-timeout-time-wait", hide = true, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_time_wait))]
    tcp_time_wait: Seconds,

    /// How long a UDP flow that is UNREPLIED or REPLIED, one exchange at most, may be silent
    #[arg(id = "conntrack-udp-timeout", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().udp))]
    udp: Seconds,

    /// How long a UDP flow that is ASSURED, with replies and for some time, may be silent
    #[arg(id = "conntrack-udp-timeout-stream", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().udp_stream))]
    udp_stream: Seconds,

    /// How often connections are counted, for the status and for a warning when a table is more than
    /// three quarters full; at least 1s
    #[arg(long = "conntrack-scan-interval", hide = true, value_name = "DURATION",
          default_value_t = Seconds(10))]
    scan_interval: Seconds,
}

impl TimeoutArgs {
    /// How often to count.
    pub(crate) fn scan_interval(&self) -> Duration {
        Duration::from_secs(self.scan_interval.0.max(1).into())
    }

    /// The timeouts, of which those without a flag are as they always are.
    pub(crate) fn timeouts(&self) -> Timeouts {
        let Self {
            tcp_established: Seconds(tcp_established),
            tcp_closing: Seconds(tcp_closing),
            tcp_closed: Seconds(tcp_closed),
            tcp_time_wait: Seconds(tcp_time_wait),
            udp: Seconds(udp),
            udp_stream: Seconds(udp_stream),
            scan_interval: _,
        } = *self;
        Timeouts {
            tcp_established,
            tcp_closing,
            tcp_closed,
            tcp_time_wait,
            udp,
            udp_stream,
            ..Timeouts::default()
        }
    }
}
