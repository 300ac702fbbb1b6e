//! The progress of a connection, in the words of Linux's own connection tracking.

use shunt_common::connections::Phase;

/// Progress of a connection.
///
/// ```text
/// TCP:  SynSent -> SynReceived -> Established -> Closing -> TimeWait   a RST leads to Closed
/// SCTP: New -> Established -> Closing -> Closed                         an ABORT does
/// UDP:  Unreplied -> Replied -> Assured
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConntrackState {
    /// TCP, and the client has sent a SYN.
    SynSent,
    /// TCP, and the backend has answered it.
    SynReceived,
    /// TCP that began without a SYN, and the backend has not answered; SCTP without a COOKIE ACK.
    New,
    /// TCP or SCTP, and both have shown that they hear each other.
    Established,
    /// TCP, and one side has ended; SCTP, and one side has acknowledged the shutdown.
    Closing,
    /// TCP, and one side has reset; SCTP, and both sides have ended or one has aborted.
    Closed,
    /// TCP, and both sides have ended.
    TimeWait,
    /// UDP, and the backend has not answered.
    Unreplied,
    /// UDP, and the backend has answered.
    Replied,
    /// UDP, and both have spoken for some time.
    Assured,
}

impl From<Phase> for ConntrackState {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::SynSent => Self::SynSent,
            Phase::SynReceived => Self::SynReceived,
            Phase::PickedUp | Phase::SctpOpening => Self::New,
            Phase::Established | Phase::SctpEstablished => Self::Established,
            Phase::Closing | Phase::SctpClosing => Self::Closing,
            Phase::Closed | Phase::SctpClosed => Self::Closed,
            Phase::TimeWait => Self::TimeWait,
            Phase::Unreplied => Self::Unreplied,
            Phase::Replied => Self::Replied,
            Phase::Lasting => Self::Assured,
        }
    }
}
