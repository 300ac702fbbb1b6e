//! The signal of a packet to its connection.

/// The signal of a packet to its connection, as a number: its kind in the lowest 6 bits, a second number of its header
/// in the 26 bits above, and a number of its header in the upper half, host order. Of the second number those are the
/// lower bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(pub u64);

const OPEN: u64 = 1;
const ANSWER: u64 = 2;
const ACKNOWLEDGE: u64 = 4;
const FIN: u64 = 8;
const RESET: u64 = 16;
const PAYLOAD: u64 = 32;

/// Lowest bit of the second number.
const SECOND: u32 = 6;
/// The bits of a sequence or acknowledgment number that the second number has.
const SECOND_BITS: u32 = (1 << (32 - SECOND)) - 1;

impl Signal {
    /// Nothing but that it came. SCTP: anything that follows the handshake's cookie too.
    pub const DATA: Self = Self(0);
    /// It ends this side.
    pub const FIN: Self = Self(FIN);
    /// It ends the connection.
    pub const RESET: Self = Self(RESET);

    /// It begins a connection: SYN without ACK, with this sequence number, or INIT, with this tag. In host order.
    #[inline(always)]
    pub const fn open(sequence: u32) -> Self {
        Self(OPEN | (sequence as u64) << 32)
    }

    /// It answers an [`Self::OPEN`]: SYN-ACK, INIT ACK. With the number that acknowledges it
    /// (TCP), host order.
    #[inline(always)]
    pub const fn answer(number: u32) -> Self {
        Self(ANSWER | (number as u64) << 32)
    }

    /// It ends the connection: RST with this sequence number, host order.
    #[inline(always)]
    pub const fn reset(sequence: u32) -> Self {
        Self(RESET | (sequence as u64) << 32)
    }

    /// The same of a SYN-ACK or RST with this acknowledgment number, host order.
    #[inline(always)]
    #[must_use]
    pub const fn to(self, acknowledgment: u32) -> Self {
        Self(self.0 | (acknowledgment << SECOND) as u64)
    }

    /// A segment with this acknowledgment number, host order.
    #[inline(always)]
    pub const fn acknowledge(number: u32) -> Self {
        Self(ACKNOWLEDGE | (number as u64) << 32)
    }

    /// The same with a FIN that is acknowledged by this number, host order.
    #[inline(always)]
    #[must_use]
    pub const fn with_fin(self, end: u32) -> Self {
        Self(self.0 | FIN | (end << SECOND) as u64)
    }

    /// The same of a packet that has so many bytes behind its transport header. A caller that only looks at packets of
    /// connections that are there need not add them.
    #[inline(always)]
    #[must_use]
    pub const fn with_payload(self, length: u32) -> Self {
        let signal = Self(self.0 | PAYLOAD);
        if !signal.ends() {
            return signal;
        }
        let others = signal.0 & !((SECOND_BITS as u64) << SECOND);
        Self(others).with_fin(self.second().wrapping_add(length))
    }

    /// Returns whether it begins a connection.
    #[inline(always)]
    pub const fn opens(self) -> bool {
        self.0 & OPEN != 0
    }

    /// Returns whether it answers one that begins.
    #[inline(always)]
    pub const fn answers(self) -> bool {
        self.0 & ANSWER != 0
    }

    /// Returns whether it ends this side.
    #[inline(always)]
    pub const fn ends(self) -> bool {
        self.0 & FIN != 0
    }

    /// Returns whether its receiver has something to acknowledge: data or an end. Data that comes with a SYN does
    /// not count: its receiver may leave that unacknowledged.
    #[inline(always)]
    pub const fn advances(self) -> bool {
        self.0 & (PAYLOAD | FIN) != 0 && !self.opens()
    }

    /// Returns whether it ends the connection.
    #[inline(always)]
    pub const fn resets(self) -> bool {
        self.0 & RESET != 0
    }

    /// Returns whether it answers another host's packet and begins nothing: a SYN-ACK, an INIT ACK, a reset.
    #[inline(always)]
    pub const fn only_answers(self) -> bool {
        self.0 & (ANSWER | RESET) != 0
    }

    /// Returns whether an established connection learns nothing from it.
    #[inline(always)]
    pub const fn is_plain(self) -> bool {
        self.0 & (OPEN | ANSWER | FIN | RESET) == 0
    }

    /// Returns whether it acknowledges `number`, or at most so many bytes behind it.
    #[inline(always)]
    pub const fn acknowledges(self, number: u32, behind: u32) -> bool {
        self.0 & ACKNOWLEDGE != 0 && self.number().wrapping_sub(number) <= behind
    }

    /// Returns whether it acknowledges exactly `number`. Of a SYN-ACK or RST the lowest 26 bits are compared.
    #[inline(always)]
    pub const fn is_answer_to(self, number: u32) -> bool {
        if self.0 & ACKNOWLEDGE != 0 {
            return (self.number() ^ number) & SECOND_BITS == 0;
        }
        self.0 & (ANSWER | RESET) != 0 && self.second() == number & SECOND_BITS
    }

    /// The number that acknowledges what it begins or ends, of which the lowest 26 bits are known.
    #[inline(always)]
    pub const fn awaited(self) -> u32 {
        if self.opens() {
            self.number().wrapping_add(1) & SECOND_BITS
        } else {
            self.second()
        }
    }

    /// Returns whether it has an acknowledgment number, and neither opens nor resets.
    #[inline(always)]
    pub const fn is_acknowledgment(self) -> bool {
        self.0 & ACKNOWLEDGE != 0
    }

    #[inline(always)]
    const fn second(self) -> u32 {
        (self.0 as u32) >> SECOND
    }

    /// The acknowledgment number, or the sequence number of a SYN or RST; 0 where there is none.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
