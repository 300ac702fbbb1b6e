//! How long connections are remembered.

use clap::Args;
use shunt_datapath::Timeouts;

use crate::cli::flags::duration::Seconds;

/// After how long a silence in both directions a connection is forgotten, and how often the tables
/// are searched for such connections.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TimeoutArgs {
    /// How long a TCP connection that is NEW, without a reply, may be silent
    #[arg(long = "conntrack-tcp-timeout-new", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_new))]
    tcp_new: Seconds,

    /// How long a TCP connection that is ESTABLISHED may be silent
    #[arg(long = "conntrack-tcp-timeout-established", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_established))]
    tcp_established: Seconds,

    /// How long a TCP connection that is CLOSING, ended by one side, may be silent
    #[arg(long = "conntrack-tcp-timeout-close-wait", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_closing))]
    tcp_closing: Seconds,

    /// How long a TCP connection that is CLOSED, ended by both sides or reset, may be silent
    #[arg(long = "conntrack-tcp-timeout-closed", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_closed))]
    tcp_closed: Seconds,

    /// How long a TCP connection in TIME_WAIT may be silent: both sides have ended it, and its
    /// backend saw a source of ours, whose port it may hold for so long
    #[arg(long = "conntrack-tcp-timeout-time-wait", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().tcp_time_wait))]
    tcp_time_wait: Seconds,

    /// How long a UDP flow that is UNREPLIED may be silent
    #[arg(long = "conntrack-udp-timeout", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().udp_unreplied))]
    udp_unreplied: Seconds,

    /// How long a UDP flow that is ASSURED, with replies, may be silent
    #[arg(long = "conntrack-udp-timeout-stream", value_name = "DURATION",
          default_value_t = Seconds(Timeouts::default().udp_assured))]
    udp_assured: Seconds,

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

    /// How often garbage collection removes connections that are over; each second while a table
    /// is more than three quarters full
    #[arg(long = "conntrack-gc-interval", value_name = "DURATION", default_value_t = Seconds(10))]
    gc_interval: Seconds,
}

impl TimeoutArgs {
    /// How often to collect, in seconds.
    pub(crate) const fn gc_interval(&self) -> u32 {
        self.gc_interval.0
    }

    /// The timeouts.
    pub(crate) const fn timeouts(&self) -> Timeouts {
        let Self {
            tcp_new: Seconds(tcp_new),
            tcp_established: Seconds(tcp_established),
            tcp_closing: Seconds(tcp_closing),
            tcp_closed: Seconds(tcp_closed),
            tcp_time_wait: Seconds(tcp_time_wait),
            udp_unreplied: Seconds(udp_unreplied),
            udp_assured: Seconds(udp_assured),
            sctp_new: Seconds(sctp_new),
            sctp_established: Seconds(sctp_established),
            sctp_closing: Seconds(sctp_closing),
            sctp_closed: Seconds(sctp_closed),
            gc_interval: _,
        } = *self;
        Timeouts {
            tcp_new,
            tcp_established,
            tcp_closing,
            tcp_closed,
            tcp_time_wait,
            udp_unreplied,
            udp_assured,
            sctp_new,
            sctp_established,
            sctp_closing,
            sctp_closed,
        }
    }
}
