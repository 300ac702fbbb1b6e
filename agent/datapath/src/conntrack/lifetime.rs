//! How long a connection is remembered.

use shunt_common::{ConntrackEntry, SCTP, TCP, V4};

/// How many seconds a connection may be silent in both directions, by what was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP: no reply yet.
    pub tcp_new: u32,
    /// TCP: both sides have spoken.
    pub tcp_established: u32,
    /// TCP: one side has ended.
    pub tcp_closing: u32,
    /// TCP: both sides have ended, or one has reset.
    pub tcp_closed: u32,
    /// TCP: both sides have ended, and the backend saw a source that we gave the client.
    pub tcp_time_wait: u32,
    /// UDP: no reply yet.
    pub udp_unreplied: u32,
    /// UDP: both sides have spoken.
    pub udp_assured: u32,
    /// SCTP: no reply yet.
    pub sctp_new: u32,
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
            tcp_new: 120,
            tcp_established: 86_400,
            tcp_closing: 120,
            tcp_closed: 10,
            tcp_time_wait: 60,
            udp_unreplied: 30,
            udp_assured: 120,
            sctp_new: 3,
            sctp_established: 210,
            sctp_closing: 3,
            sctp_closed: 10,
        }
    }
}

/// Where a connection is in its life.
///
/// ```text
/// TCP:  New -> Established -> Closing -> Closed or TimeWait   a RST leads to Closed from anywhere
/// SCTP: New -> Established -> Closing -> Closed               an ABORT does
/// UDP:  Unreplied -> Assured
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConntrackState {
    /// TCP or SCTP, and the backend has not answered.
    New,
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
    Unreplied,
    /// UDP, and both have spoken.
    Assured,
}

impl ConntrackState {
    /// The state of a connection of which the two directions have seen this much; a direction
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
            TCP | SCTP => Self::New,
            _ if replied => Self::Assured,
            _ => Self::Unreplied,
        }
    }
}

impl Timeouts {
    /// How long a connection of this protocol may be silent in this state, in seconds.
    pub const fn of(&self, protocol: u8, state: ConntrackState) -> u32 {
        match (protocol, state) {
            (_, ConntrackState::Unreplied) => self.udp_unreplied,
            (_, ConntrackState::Assured) => self.udp_assured,
            (SCTP, ConntrackState::New) => self.sctp_new,
            (SCTP, ConntrackState::Established) => self.sctp_established,
            (SCTP, ConntrackState::Closing) => self.sctp_closing,
            (SCTP, ConntrackState::Closed | ConntrackState::TimeWait) => self.sctp_closed,
            (_, ConntrackState::New) => self.tcp_new,
            (_, ConntrackState::Established) => self.tcp_established,
            (_, ConntrackState::Closing) => self.tcp_closing,
            (_, ConntrackState::Closed) => self.tcp_closed,
            (_, ConntrackState::TimeWait) => self.tcp_time_wait,
        }
    }

    /// The shortest of them for a protocol: no connection is over before.
    pub fn shortest(&self, protocol: u8) -> u32 {
        let states: &[ConntrackState] = match protocol {
            TCP | SCTP => &[
                ConntrackState::New,
                ConntrackState::Established,
                ConntrackState::Closing,
                ConntrackState::Closed,
                ConntrackState::TimeWait,
            ],
            _ => &[ConntrackState::Unreplied, ConntrackState::Assured],
        };
        let of = |state: &ConntrackState| self.of(protocol, *state);
        states.iter().map(of).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use shunt_common::UDP;

    use super::*;

    #[test]
    fn a_state_follows_from_what_both_directions_have_seen() {
        const NONE: u16 = 0;
        const PACKET: u16 = ConntrackEntry::<V4>::PACKET;
        const FIN: u16 = PACKET | ConntrackEntry::<V4>::FIN;
        const RST: u16 = PACKET | ConntrackEntry::<V4>::RST;
        for (protocol, forward, reply, state) in [
            (TCP, PACKET, NONE, ConntrackState::New),
            (TCP, PACKET, PACKET, ConntrackState::Established),
            (TCP, FIN, PACKET, ConntrackState::Closing),
            (TCP, PACKET, FIN, ConntrackState::Closing),
            (TCP, FIN, NONE, ConntrackState::Closing),
            (TCP, FIN, FIN, ConntrackState::Closed),
            (TCP, RST, PACKET, ConntrackState::Closed),
            (TCP, PACKET, RST, ConntrackState::Closed),
            (TCP, FIN, RST, ConntrackState::Closed),
            (UDP, PACKET, NONE, ConntrackState::Unreplied),
            (UDP, PACKET, PACKET, ConntrackState::Assured),
            (UDP, NONE, PACKET, ConntrackState::Assured),
            (SCTP, PACKET, NONE, ConntrackState::New),
            (SCTP, PACKET, PACKET, ConntrackState::Established),
            (SCTP, FIN, PACKET, ConntrackState::Closing),
            (SCTP, PACKET, FIN, ConntrackState::Closing),
            (SCTP, FIN, FIN, ConntrackState::Closed),
            (SCTP, RST, PACKET, ConntrackState::Closed),
            (SCTP, PACKET, RST, ConntrackState::Closed),
        ] {
            let found = ConntrackState::of(protocol, forward, reply, false);
            assert_eq!(found, state, "{protocol}: {forward:#x}, {reply:#x}");
            let given_source = match state {
                ConntrackState::Closed
                    if protocol == TCP && (forward | reply) & ConntrackEntry::<V4>::RST == 0 =>
                {
                    ConntrackState::TimeWait
                }
                other => other,
            };
            let found = ConntrackState::of(protocol, forward, reply, true);
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
        assert_eq!(
            timeouts.of(TCP, ConntrackState::TimeWait),
            60,
            "TCP_TIMEWAIT_LEN"
        );
        assert_eq!(timeouts.of(TCP, ConntrackState::Closed), 10);
    }

    #[test]
    fn an_association_is_remembered_as_long_as_linux_does() {
        let timeouts = Timeouts::default();
        for (state, seconds) in [
            (ConntrackState::New, 3),
            (ConntrackState::Established, 210),
            (ConntrackState::Closing, 3),
            (ConntrackState::Closed, 10),
        ] {
            assert_eq!(timeouts.of(SCTP, state), seconds, "{state:?}");
        }
    }
}
