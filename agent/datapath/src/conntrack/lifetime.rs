//! How long a connection is remembered.

use shunt_common::{ConntrackEntry, SCTP, TCP, V4};

/// How many seconds a connection may be silent in both directions, by what was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP: no reply yet.
    pub tcp_opening: u32,
    /// TCP: both sides have spoken.
    pub tcp_established: u32,
    /// TCP: one side has ended.
    pub tcp_closing: u32,
    /// TCP: both sides have ended, or one has reset.
    pub tcp_closed: u32,
    /// TCP: both sides have ended, and the backend saw a source that we gave the client.
    pub snat_closed: u32,
    /// UDP: no reply yet.
    pub udp_one_way: u32,
    /// UDP: both sides have spoken.
    pub udp_replied: u32,
    /// SCTP: no reply yet.
    pub sctp_opening: u32,
    /// SCTP: both sides have spoken.
    pub sctp_established: u32,
    /// SCTP: one side has acknowledged the shutdown.
    pub sctp_closing: u32,
    /// SCTP: the shutdown is complete, or one side has aborted.
    pub sctp_closed: u32,
}

impl Default for Timeouts {
    /// Those of Linux's own connection tracking (`nf_conntrack-sysctl.rst`), with kube-proxy's day
    /// instead of five for established TCP. A source that we gave a client is kept for as long as
    /// Linux keeps a socket in TIME-WAIT (`TCP_TIMEWAIT_LEN` of `net/tcp.h`).
    ///
    /// SCTP's are `nf_conntrack_sctp_timeout_cookie_wait`, `_established`, `_shutdown_ack_sent` and
    /// `_closed`. Its peers send a heartbeat each 30 s, so an association that is silent for
    /// 210 s has gone another way or is dead (`net/netfilter/nf_conntrack_proto_sctp.c`).
    fn default() -> Self {
        Self {
            tcp_opening: 120,
            tcp_established: 86_400,
            tcp_closing: 120,
            tcp_closed: 10,
            snat_closed: 60,
            udp_one_way: 30,
            udp_replied: 120,
            sctp_opening: 3,
            sctp_established: 210,
            sctp_closing: 3,
            sctp_closed: 10,
        }
    }
}

/// Where a connection is in its life.
///
/// ```text
/// TCP:  Opening -> Established -> Closing -> Closed or TimeWait   a RST leads to Closed from anywhere
/// SCTP: Opening -> Established -> Closing -> Closed               an ABORT does
/// UDP:  OneWay -> Replied
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// TCP or SCTP, and the backend has not answered.
    Opening,
    /// TCP or SCTP, and both have spoken.
    Established,
    /// TCP, and one side has ended; SCTP, and one side has acknowledged the shutdown.
    Closing,
    /// TCP or SCTP, and both sides have ended or one has reset.
    Closed,
    /// TCP, and both sides have ended; the backend may hold the source that we gave the client, in
    /// TIME-WAIT, and would not take another client's connection from it. SCTP has no such state.
    TimeWait,
    /// UDP, and the backend has not answered.
    OneWay,
    /// UDP, and both have spoken.
    Replied,
}

impl Phase {
    /// The phase of a connection of which the two directions have seen this much; a direction
    /// whose entry is gone has seen 0. `given_source`: the backend sees another source address or
    /// port than the client has.
    pub const fn of(protocol: u8, forward: u16, reply: u16, given_source: bool) -> Self {
        const PACKET: u16 = ConntrackEntry::<V4>::PACKET;
        const FIN: u16 = ConntrackEntry::<V4>::FIN;
        const RST: u16 = ConntrackEntry::<V4>::RST;
        let replied = reply & PACKET != 0;
        match protocol {
            TCP | SCTP if ConntrackEntry::<V4>::is_over(forward, reply) => {
                if protocol == TCP && given_source && (forward | reply) & RST == 0 {
                    Self::TimeWait
                } else {
                    Self::Closed
                }
            }
            TCP | SCTP if (forward | reply) & FIN != 0 => Self::Closing,
            TCP | SCTP if replied => Self::Established,
            TCP | SCTP => Self::Opening,
            _ if replied => Self::Replied,
            _ => Self::OneWay,
        }
    }
}

impl Timeouts {
    /// How long a connection of this protocol may be silent in this phase, in seconds.
    pub const fn of(&self, protocol: u8, phase: Phase) -> u32 {
        match (protocol, phase) {
            (_, Phase::OneWay) => self.udp_one_way,
            (_, Phase::Replied) => self.udp_replied,
            (SCTP, Phase::Opening) => self.sctp_opening,
            (SCTP, Phase::Established) => self.sctp_established,
            (SCTP, Phase::Closing) => self.sctp_closing,
            (SCTP, Phase::Closed | Phase::TimeWait) => self.sctp_closed,
            (_, Phase::Opening) => self.tcp_opening,
            (_, Phase::Established) => self.tcp_established,
            (_, Phase::Closing) => self.tcp_closing,
            (_, Phase::Closed) => self.tcp_closed,
            (_, Phase::TimeWait) => self.snat_closed,
        }
    }

    /// The shortest of them for a protocol: no connection is over before.
    pub fn shortest(&self, protocol: u8) -> u32 {
        let phases: &[Phase] = match protocol {
            TCP | SCTP => &[
                Phase::Opening,
                Phase::Established,
                Phase::Closing,
                Phase::Closed,
                Phase::TimeWait,
            ],
            _ => &[Phase::OneWay, Phase::Replied],
        };
        let of = |phase: &Phase| self.of(protocol, *phase);
        phases.iter().map(of).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use shunt_common::UDP;

    use super::*;

    #[test]
    fn a_phase_follows_from_what_both_directions_have_seen() {
        const NONE: u16 = 0;
        const PACKET: u16 = ConntrackEntry::<V4>::PACKET;
        const FIN: u16 = PACKET | ConntrackEntry::<V4>::FIN;
        const RST: u16 = PACKET | ConntrackEntry::<V4>::RST;
        for (protocol, forward, reply, phase) in [
            (TCP, PACKET, NONE, Phase::Opening),
            (TCP, PACKET, PACKET, Phase::Established),
            (TCP, FIN, PACKET, Phase::Closing),
            (TCP, PACKET, FIN, Phase::Closing),
            (TCP, FIN, NONE, Phase::Closing),
            (TCP, FIN, FIN, Phase::Closed),
            (TCP, RST, PACKET, Phase::Closed),
            (TCP, PACKET, RST, Phase::Closed),
            (TCP, FIN, RST, Phase::Closed),
            (UDP, PACKET, NONE, Phase::OneWay),
            (UDP, PACKET, PACKET, Phase::Replied),
            (UDP, NONE, PACKET, Phase::Replied),
            (SCTP, PACKET, NONE, Phase::Opening),
            (SCTP, PACKET, PACKET, Phase::Established),
            (SCTP, FIN, PACKET, Phase::Closing),
            (SCTP, PACKET, FIN, Phase::Closing),
            (SCTP, FIN, FIN, Phase::Closed),
            (SCTP, RST, PACKET, Phase::Closed),
            (SCTP, PACKET, RST, Phase::Closed),
        ] {
            let found = Phase::of(protocol, forward, reply, false);
            assert_eq!(found, phase, "{protocol}: {forward:#x}, {reply:#x}");
            let given_source = match phase {
                Phase::Closed
                    if protocol == TCP && (forward | reply) & ConntrackEntry::<V4>::RST == 0 =>
                {
                    Phase::TimeWait
                }
                other => other,
            };
            let found = Phase::of(protocol, forward, reply, true);
            assert_eq!(
                found, given_source,
                "{protocol}: {forward:#x}, {reply:#x}, from a source that we gave"
            );
        }
    }

    #[test]
    fn no_connection_is_over_before_the_shortest_timeout_of_its_protocol() {
        let timeouts = Timeouts::default();
        assert_eq!(timeouts.shortest(TCP), 10);
        assert_eq!(timeouts.shortest(UDP), 30);
        assert_eq!(timeouts.shortest(SCTP), 3);
    }

    #[test]
    fn a_source_that_we_gave_is_kept_as_long_as_a_backend_may_hold_it() {
        let timeouts = Timeouts::default();
        assert_eq!(timeouts.of(TCP, Phase::TimeWait), 60, "TCP_TIMEWAIT_LEN");
        assert_eq!(timeouts.of(TCP, Phase::Closed), 10);
    }

    #[test]
    fn an_association_is_remembered_as_long_as_linux_does() {
        let timeouts = Timeouts::default();
        for (phase, seconds) in [
            (Phase::Opening, 3),
            (Phase::Established, 210),
            (Phase::Closing, 3),
            (Phase::Closed, 10),
        ] {
            assert_eq!(timeouts.of(SCTP, phase), seconds, "{phase:?}");
        }
    }
}
