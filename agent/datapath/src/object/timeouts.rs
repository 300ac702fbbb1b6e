//! The times for which a connection is remembered.

use shunt_common::connections::{self, Phase};

use crate::maps::clock::Rate;

/// For how long after its first packet a flow has to go on to be a lasting one, in seconds: as in
/// Linux (`nf_conntrack_udp_packet`).
const LASTING: u32 = 2;

/// Seconds for which a connection may be silent in both directions, by what was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP: the client has sent a SYN.
    pub tcp_syn_sent: u32,
    /// TCP: the backend has answered it.
    pub tcp_syn_recv: u32,
    /// TCP: begun without a SYN, and the backend has not spoken.
    pub tcp_new: u32,
    /// TCP: both sides have shown that they hear each other.
    pub tcp_established: u32,
    /// TCP: one side has ended.
    pub tcp_closing: u32,
    /// TCP: one side has reset.
    pub tcp_closed: u32,
    /// TCP: both sides have ended.
    pub tcp_time_wait: u32,
    /// UDP: no reply, or one exchange.
    pub udp: u32,
    /// UDP: both sides have spoken, for some time.
    pub udp_stream: u32,
    /// SCTP: no COOKIE ACK yet.
    pub sctp_new: u32,
    /// SCTP: open.
    pub sctp_established: u32,
    /// SCTP: one side has acknowledged the shutdown.
    pub sctp_closing: u32,
    /// SCTP: the shutdown is complete, or one side has aborted.
    pub sctp_closed: u32,
}

impl Default for Timeouts {
    /// Timeouts of Linux's own connection tracking (`nf_conntrack-sysctl.rst`), with kube-proxy's day
    /// instead of five for established TCP. One that both sides have ended is kept for as long as
    /// Linux keeps a socket in TIME-WAIT (`TCP_TIMEWAIT_LEN` of `net/tcp.h`).
    ///
    /// SCTP's are `nf_conntrack_sctp_timeout_cookie_wait`, `_established`, `_shutdown_ack_sent` and
    /// `_closed`. Its peers send a heartbeat each 30 s, so an association that is silent for
    /// 210 s has gone another way or is dead (`net/netfilter/nf_conntrack_proto_sctp.c`).
    fn default() -> Self {
        Self {
            tcp_syn_sent: 120,
            tcp_syn_recv: 60,
            tcp_new: 120,
            tcp_established: 86_400,
            tcp_closing: 120,
            tcp_closed: 10,
            tcp_time_wait: 60,
            udp: 30,
            udp_stream: 120,
            sctp_new: 3,
            sctp_established: 210,
            sctp_closing: 3,
            sctp_closed: 10,
        }
    }
}

impl Timeouts {
    /// As the programs have them, in ticks.
    pub(crate) fn in_ticks(&self, rate: Rate) -> connections::Timeouts {
        let Self {
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
        } = *self;
        let mut phases = [0; Phase::COUNT];
        let mut set = |phase: Phase, seconds| phases[phase as usize] = rate.ticks(seconds);
        // A half of a connection that opens does not separate these phases ([`Phase::longest`]): with a shorter time,
        // what may give way would be taken for over, and new connections would be refused.
        set(Phase::SynSent, tcp_syn_sent.max(tcp_syn_recv).max(tcp_new));
        set(Phase::SynReceived, tcp_syn_recv);
        set(Phase::PickedUp, tcp_new);
        set(Phase::Established, tcp_established);
        set(Phase::Closing, tcp_closing);
        set(Phase::Closed, tcp_closed);
        set(Phase::TimeWait, tcp_time_wait);
        set(Phase::Unreplied, udp);
        set(Phase::Replied, udp);
        set(Phase::Lasting, udp_stream);
        set(Phase::SctpOpening, sctp_new);
        set(Phase::SctpEstablished, sctp_established);
        set(Phase::SctpClosing, sctp_closing);
        set(Phase::SctpClosed, sctp_closed);
        connections::Timeouts {
            shortest: phases.iter().copied().min().unwrap_or(0),
            lasting: rate.ticks(LASTING),
            phases,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_linux_with_a_day_for_established_tcp() {
        // 64 Hz: a tick is a second.
        let ticks = Timeouts::default().in_ticks(Rate { hz: 64 });
        assert_eq!(ticks, connections::Timeouts::linux(1));
    }

    #[test]
    fn each_time_is_that_of_its_phases() {
        let timeouts = Timeouts {
            tcp_syn_sent: 113,
            tcp_syn_recv: 101,
            tcp_new: 102,
            tcp_established: 103,
            tcp_closing: 104,
            tcp_closed: 105,
            tcp_time_wait: 106,
            udp: 107,
            udp_stream: 108,
            sctp_new: 109,
            sctp_established: 110,
            sctp_closing: 111,
            sctp_closed: 112,
        };
        // 64 Hz: a tick is a second.
        let ticks = timeouts.in_ticks(Rate { hz: 64 });
        for (phase, seconds) in [
            (Phase::SynSent, 113),
            (Phase::SynReceived, 101),
            (Phase::PickedUp, 102),
            (Phase::Established, 103),
            (Phase::Closing, 104),
            (Phase::Closed, 105),
            (Phase::TimeWait, 106),
            (Phase::Unreplied, 107),
            (Phase::Replied, 107),
            (Phase::Lasting, 108),
            (Phase::SctpOpening, 109),
            (Phase::SctpEstablished, 110),
            (Phase::SctpClosing, 111),
            (Phase::SctpClosed, 112),
        ] {
            assert_eq!(ticks.of(phase), seconds, "{phase:?}");
        }
        assert_eq!(ticks.shortest, 101);
    }

    #[test]
    fn the_longest_of_the_times_of_a_connection_that_opens_counts_for_its_halves() {
        let timeouts = Timeouts {
            tcp_syn_sent: 10,
            ..Timeouts::default()
        };
        let ticks = timeouts.in_ticks(Rate { hz: 64 });
        for phase in [Phase::SynReceived, Phase::PickedUp] {
            assert!(ticks.of(Phase::SynSent) >= ticks.of(phase), "{phase:?}");
        }
    }

    #[test]
    fn no_connection_is_over_before_the_shortest_timeout() {
        let timeouts = Timeouts {
            udp: 1,
            ..Timeouts::default()
        };
        let ticks = timeouts.in_ticks(Rate { hz: 1000 });
        assert_eq!(ticks.shortest, 16);
        assert_eq!(ticks.lasting, 32);
    }
}
