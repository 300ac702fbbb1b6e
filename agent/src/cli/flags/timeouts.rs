//! The timeouts of connections.

use std::time::Duration;

use clap::Args;
use shunt_datapath::Timeouts;

use crate::cli::flags::duration::Seconds;

/// Silence in both directions after which a connection is forgotten, and interval at which connections are counted.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Timeouts of connections")]
pub(crate) struct TimeoutArgs {
    /// Time that a TCP connection in ESTABLISHED may be silent
    #[arg(id = "conntrack-tcp-timeout-established", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_established))]
    tcp_established: Seconds,

    /// Time that a TCP connection in CLOSING, ended by one side, may be silent
    #[arg(id = "conntrack-tcp-timeout-close-wait", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_closing))]
    tcp_closing: Seconds,

    /// Time that a TCP connection in CLOSED, reset by one side, may be silent
    #[arg(long = "conntrack-tcp-timeout-closed", hide = true, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_closed))]
    tcp_closed: Seconds,

    /// Time that a TCP connection in TIME_WAIT, ended by both sides, may be silent: its backend may hold the client's
    /// address and port for so long
    #[arg(long = "conntrack-tcp-timeout-time-wait", hide = true, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_time_wait))]
    tcp_time_wait: Seconds,

    /// Time that a UDP flow in UNREPLIED or REPLIED, one exchange at most, may be silent
    #[arg(id = "conntrack-udp-timeout", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().udp))]
    udp: Seconds,

    /// Time that a UDP flow in ASSURED, with replies and for some time, may be silent
    #[arg(id = "conntrack-udp-timeout-stream", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().udp_stream))]
    udp_stream: Seconds,

    /// Interval at which connections are counted, for the status and for a warning when a table is more than three
    /// quarters full; at least 1s
    #[arg(long = "conntrack-scan-interval", hide = true, value_name = "DURATION",
          default_value_t = Seconds(10))]
    scan_interval: Seconds,
}

impl TimeoutArgs {
    /// Returns the interval at which connections are counted.
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
