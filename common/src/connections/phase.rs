//! The phases of a connection, their timeouts without a packet, and the order in which connections give way.

use crate::{SCTP, TCP};

use super::Meta;

/// The phase of a connection.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// TCP: the client has sent a SYN.
    SynSent,
    /// TCP: the backend has answered it, the client has not acknowledged that.
    SynReceived,
    /// TCP: begun without a SYN, and the backend has not spoken.
    PickedUp,
    /// TCP: both have shown that they hear each other.
    Established,
    /// TCP: one side has sent a FIN.
    Closing,
    /// TCP: one side has sent a RST.
    Closed,
    /// TCP: both have sent a FIN. The backend may refuse another connection from the source that
    /// it saw.
    TimeWait,
    /// Neither TCP nor SCTP: no reply.
    Unreplied,
    /// The same: a reply, but no packet two seconds after the first.
    Replied,
    /// The same: a reply, and it has lasted.
    Lasting,
    /// SCTP: no COOKIE ACK.
    SctpOpening,
    /// SCTP: open.
    SctpEstablished,
    /// SCTP: one side has sent SHUTDOWN ACK or SHUTDOWN COMPLETE.
    SctpClosing,
    /// SCTP: both have, or one has sent ABORT.
    SctpClosed,
}

impl Phase {
    /// Number of phases.
    pub const COUNT: usize = Self::SctpClosed as usize + 1;

    /// The phase of a connection with these halves.
    #[inline(always)]
    pub const fn of(forward: Meta, reply: Meta) -> Self {
        let reset = (forward.seen() | reply.seen()) & Meta::RESET != 0;
        let ended = forward.has(Meta::FIN) as u8 + reply.has(Meta::FIN) as u8;
        let assured = forward.has(Meta::ASSURED);
        match (forward.protocol(), assured) {
            (TCP, _) if reset => Self::Closed,
            (TCP, true) => match ended {
                0 => Self::Established,
                1 => Self::Closing,
                _ => Self::TimeWait,
            },
            (TCP, false) if !forward.has(Meta::OPENED) => Self::PickedUp,
            (TCP, false) if reply.has(Meta::SYN_ACK) => Self::SynReceived,
            (TCP, false) => Self::SynSent,
            (SCTP, _) if reset || ended == 2 => Self::SctpClosed,
            (SCTP, false) => Self::SctpOpening,
            (SCTP, true) if ended == 1 => Self::SctpClosing,
            (SCTP, true) => Self::SctpEstablished,
            (_, true) => Self::Lasting,
            (_, false) if reply.has(Meta::REPLIED) => Self::Replied,
            (_, false) => Self::Unreplied,
        }
    }

    /// The phase that an established connection would be in without the reset that it has seen;
    /// `None` if there was none, or it was not established.
    #[inline(always)]
    pub const fn before_reset(forward: Meta, reply: Meta) -> Option<Self> {
        if !forward.has(Meta::ASSURED) || (forward.seen() | reply.seen()) & Meta::RESET == 0 {
            return None;
        }
        let cleared = Meta::RESET | Meta::PEER_RESET;
        Some(Self::of(
            forward.seeing(0, cleared),
            reply.seeing(0, cleared),
        ))
    }

    /// The phase that lasts the longest of those that a half may be in, by what it knows itself.
    #[inline(always)]
    pub const fn longest(half: Meta) -> Self {
        let assured = half.has(Meta::ASSURED);
        match (half.protocol(), assured) {
            (TCP, true) if half.has(Meta::FIN) => Self::Closing,
            (TCP, true) => Self::Established,
            (TCP, false) => Self::SynSent,
            (SCTP, _) => Self::SctpEstablished,
            (_, true) => Self::Lasting,
            (_, false) => Self::Replied,
        }
    }

    /// Returns the reason for which a connection in this phase may be given up.
    #[inline(always)]
    pub const fn room(self) -> Room {
        match self {
            Self::Closed | Self::TimeWait | Self::SctpClosed => Room::Over,
            Self::SynSent | Self::SynReceived | Self::SctpOpening => Room::HalfOpen,
            Self::PickedUp | Self::Unreplied | Self::Replied => Room::Unassured,
            Self::Established
            | Self::Closing
            | Self::Lasting
            | Self::SctpEstablished
            | Self::SctpClosing => Room::Never,
        }
    }
}

/// Reason for which a connection may be given up for a new one, the first reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// Its time is over, or half of it is missing.
    Expired,
    /// It has ended.
    Over,
    /// Neither side has proved to be there.
    HalfOpen,
    /// Nothing has come of it yet.
    Unassured,
    /// It was established, and a reset was sent, perhaps by one of its sides; or a FIN in its client's name that its
    /// backend has not acknowledged.
    Doubtful,
    /// It is not given up.
    Never,
}

/// The number of ticks without a packet that each phase lasts.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Timeouts {
    /// By [`Phase`].
    pub phases: [u32; Phase::COUNT],
    /// The shortest of them: who had a packet since is not looked at more closely.
    pub shortest: u32,
    /// Number of ticks after the first packet from which on another packet makes an answered flow [`Phase::Lasting`].
    pub lasting: u32,
}

impl Timeouts {
    /// The timeouts that Linux has, but for a day of [`Phase::Established`], at so many ticks a
    /// second.
    pub const fn linux(second: u32) -> Self {
        let seconds = [
            120, 60, 120, 86_400, 120, 10, 60, 30, 30, 120, 3, 210, 3, 10,
        ];
        let mut phases = seconds;
        let mut place = 0;
        while place < Phase::COUNT {
            phases[place] *= second;
            place += 1;
        }
        Self {
            phases,
            shortest: 3 * second,
            lasting: 2 * second,
        }
    }

    /// That of one phase.
    #[inline(always)]
    pub const fn of(&self, phase: Phase) -> u32 {
        self.phases[phase as usize]
    }
}
