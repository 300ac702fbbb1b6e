//! How long a connection is remembered.

use shunt_common::{ConntrackEntry, TCP, V4};

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
    /// UDP: no reply yet.
    pub udp_one_way: u32,
    /// UDP: both sides have spoken.
    pub udp_replied: u32,
}

impl Default for Timeouts {
    /// Those of Linux's own connection tracking (`nf_conntrack-sysctl.rst`), with kube-proxy's day
    /// instead of five for established TCP.
    fn default() -> Self {
        Self {
            tcp_opening: 120,
            tcp_established: 86_400,
            tcp_closing: 120,
            tcp_closed: 10,
            udp_one_way: 30,
            udp_replied: 120,
        }
    }
}

/// Where a connection is in its life.
///
/// ```text
/// TCP: Opening -> Established -> Closing -> Closed     a RST leads to Closed from anywhere
/// UDP: OneWay -> Replied
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// TCP, and the backend has not answered.
    Opening,
    /// TCP, and both have spoken.
    Established,
    /// TCP, and one side has ended.
    Closing,
    /// TCP, and both sides have ended or one has reset.
    Closed,
    /// UDP, and the backend has not answered.
    OneWay,
    /// UDP, and both have spoken.
    Replied,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 6] = [
        Self::Opening,
        Self::Established,
        Self::Closing,
        Self::Closed,
        Self::OneWay,
        Self::Replied,
    ];

    /// The phase of a connection of which the two directions have seen this much; a direction
    /// whose entry is gone has seen 0.
    pub const fn of(protocol: u8, forward: u16, reply: u16) -> Self {
        const PACKET: u16 = ConntrackEntry::<V4>::PACKET;
        const FIN: u16 = ConntrackEntry::<V4>::FIN;
        let replied = reply & PACKET != 0;
        if protocol != TCP {
            return if replied { Self::Replied } else { Self::OneWay };
        }
        if ConntrackEntry::<V4>::is_over(forward, reply) {
            Self::Closed
        } else if (forward | reply) & FIN != 0 {
            Self::Closing
        } else if replied {
            Self::Established
        } else {
            Self::Opening
        }
    }
}

impl Timeouts {
    /// How long a connection in this phase may be silent, in seconds.
    pub const fn of(&self, phase: Phase) -> u32 {
        match phase {
            Phase::Opening => self.tcp_opening,
            Phase::Established => self.tcp_established,
            Phase::Closing => self.tcp_closing,
            Phase::Closed => self.tcp_closed,
            Phase::OneWay => self.udp_one_way,
            Phase::Replied => self.udp_replied,
        }
    }

    /// The shortest of them: no connection is over before.
    pub fn shortest(&self) -> u32 {
        Phase::ALL
            .into_iter()
            .fold(u32::MAX, |shortest, phase| shortest.min(self.of(phase)))
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
        ] {
            let found = Phase::of(protocol, forward, reply);
            assert_eq!(found, phase, "{protocol}: {forward:#x}, {reply:#x}");
        }
    }
}
