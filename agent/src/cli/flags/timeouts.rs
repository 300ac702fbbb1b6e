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
    /// How long a TCP connection that is SYN_SENT, without an answer, may be silent
    #[arg(long = "conntrack-tcp-timeout-syn-sent", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_syn_sent))]
    tcp_syn_sent: Seconds,

    /// How long a TCP connection that is SYN_RECV, not yet acknowledged by the client, may be silent
    #[arg(long = "conntrack-tcp-timeout-syn-recv", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_syn_recv))]
    tcp_syn_recv: Seconds,

    /// How long a TCP connection that is NEW, begun without a SYN and not answered, may be silent
    #[arg(long = "conntrack-tcp-timeout-new", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_new))]
    tcp_new: Seconds,

    /// How long a TCP connection that is ESTABLISHED may be silent
    #[arg(id = "conntrack-tcp-timeout-established", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_established))]
    tcp_established: Seconds,

    /// How long a TCP connection that is CLOSING, ended by one side, may be silent
    #[arg(id = "conntrack-tcp-timeout-close-wait", long, value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_closing))]
    tcp_closing: Seconds,

    /// How long a TCP connection that is CLOSED, reset by one side, may be silent
    #[arg(long = "conntrack-tcp-timeout-closed", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_closed))]
    tcp_closed: Seconds,

    /// How long a TCP connection in TIME_WAIT, ended by both sides, may be silent: its backend may
    /// hold the client's address and port for so long
    #[arg(long = "conntrack-tcp-timeout-time-wait", value_name = "DURATION",
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

    /// How long an SCTP association that is NEW, without a reply, may be silent
    #[arg(long = "conntrack-sctp-timeout-new", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().sctp_new))]
    sctp_new: Seconds,

    /// How long an SCTP association that is ESTABLISHED may be silent; its peers send heartbeats
    #[arg(long = "conntrack-sctp-timeout-established", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().sctp_established))]
    sctp_established: Seconds,

    /// How long an SCTP association that is CLOSING, its shutdown acknowledged by one side, may be
    /// silent
    #[arg(long = "conntrack-sctp-timeout-closing", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().sctp_closing))]
    sctp_closing: Seconds,

    /// How long an SCTP association that is CLOSED, shut down or aborted, may be silent
    #[arg(long = "conntrack-sctp-timeout-closed", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().sctp_closed))]
    sctp_closed: Seconds,

    /// How often connections are counted, for the status and for a warning when a table is more than
    /// three quarters full; at least 1s
    #[arg(long = "conntrack-scan-interval", value_name = "DURATION", default_value_t = Seconds(10))]
    scan_interval: Seconds,
}

impl TimeoutArgs {
    /// How often to count.
    pub(crate) fn scan_interval(&self) -> Duration {
        Duration::from_secs(self.scan_interval.0.max(1).into())
    }

    /// The timeouts.
    pub(crate) const fn timeouts(&self) -> Timeouts {
        let Self {
            tcp_syn_sent: Seconds(tcp_syn_sent),
            tcp_syn_recv: Seconds(tcp_syn_recv),
            tcp_new: Seconds(tcp_new),
            tcp_established: Seconds(tcp_established),
            tcp_closing: Seconds(tcp_closing),
            tcp_closed: Seconds(tcp_closed),
            tcp_time_wait: Seconds(tcp_time_wait),
            udp: Seconds(udp),
            udp_stream: Seconds(udp_stream),
            sctp_new: Seconds(sctp_new),
            sctp_established: Seconds(sctp_established),
            sctp_closing: Seconds(sctp_closing),
            sctp_closed: Seconds(sctp_closed),
            scan_interval: _,
        } = *self;
        Timeouts {
            tcp_syn_sent,
            tcp_syn_recv,
            tcp_new,
            tcp_established,
            tcp_closing,
            tcp_closed,
            tcp_time_wait,
            udp,
            udp_stream,
            sctp_new,
            sctp_established,
            sctp_closing,
            sctp_closed,
        }
    }
}
