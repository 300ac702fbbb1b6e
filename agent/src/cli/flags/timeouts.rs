//! The timeouts of connections.

use std::time::Duration;

use clap::Args;
use shunt_datapath::Timeouts;
use shunt_print::duration::Seconds;

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory as _, Parser};

    use super::*;
    use crate::cli::config::settings::KubeProxySettings;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        timeouts: TimeoutArgs,
    }

    fn parse(flag: &str, value: &str) -> TimeoutArgs {
        Flags::try_parse_from(["agent", &format!("--{flag}"), value])
            .unwrap()
            .timeouts
    }

    /// A flag, and the timeout that it sets.
    type Row = (&'static str, fn(&mut Timeouts) -> &mut u32);

    const ROWS: [Row; 6] = [
        ("conntrack-tcp-timeout-established", |timeouts| {
            &mut timeouts.tcp_established
        }),
        ("conntrack-tcp-timeout-close-wait", |timeouts| {
            &mut timeouts.tcp_closing
        }),
        ("conntrack-tcp-timeout-closed", |timeouts| {
            &mut timeouts.tcp_closed
        }),
        ("conntrack-tcp-timeout-time-wait", |timeouts| {
            &mut timeouts.tcp_time_wait
        }),
        ("conntrack-udp-timeout", |timeouts| &mut timeouts.udp),
        ("conntrack-udp-timeout-stream", |timeouts| {
            &mut timeouts.udp_stream
        }),
    ];

    const SCAN_INTERVAL: &str = "conntrack-scan-interval";

    #[test]
    fn each_flag_sets_its_timeout_and_no_other() {
        for (flag, timeout) in ROWS {
            let mut expected = Timeouts::default();
            *timeout(&mut expected) = 12_345;
            let args = parse(flag, "12345s");
            assert_eq!(args.timeouts(), expected, "{flag}");
            assert_eq!(args.scan_interval(), Duration::from_secs(10), "{flag}");
            let settings = KubeProxySettings::default();
            assert_eq!(settings.timeouts(args.timeouts()), expected, "{flag}");
        }
        for (value, seconds) in [("7s", 7), ("0s", 1)] {
            let args = parse(SCAN_INTERVAL, value);
            assert_eq!(args.scan_interval(), Duration::from_secs(seconds));
            assert_eq!(args.timeouts(), Timeouts::default());
        }
    }

    #[test]
    fn no_flag_is_left_out() {
        let tested: BTreeSet<_> = ROWS.iter().map(|(flag, _)| *flag).collect();
        let command = Flags::command();
        let flags = command.get_arguments().filter_map(clap::Arg::get_long);
        let expected: BTreeSet<_> = flags.filter(|flag| *flag != SCAN_INTERVAL).collect();
        assert_eq!(tested, expected);
    }
}
