//! What a packet says of its connection.

/// What a packet says of its connection, as a number: what it is in the lower half, and a number of
/// its header in the upper one, host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(pub u64);

const OPEN: u64 = 1;
const ANSWER: u64 = 2;
const ACKNOWLEDGE: u64 = 4;
const FIN: u64 = 8;
const RESET: u64 = 16;
const PAYLOAD: u64 = 32;

impl Signal {
    /// Nothing but that it came. SCTP: anything that follows the handshake's cookie too.
    pub const DATA: Self = Self(0);
    /// It begins a connection: INIT.
    pub const OPEN: Self = Self(OPEN);
    /// It ends this side.
    pub const FIN: Self = Self(FIN);
    /// It ends the connection.
    pub const RESET: Self = Self(RESET);

    /// It begins a connection: SYN without ACK, with this sequence number, host order.
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

    /// A segment with this acknowledgment number, host order.
    #[inline(always)]
    pub const fn acknowledge(number: u32) -> Self {
        Self(ACKNOWLEDGE | (number as u64) << 32)
    }

    /// The same with a FIN.
    #[inline(always)]
    #[must_use]
    pub const fn with_fin(self) -> Self {
        Self(self.0 | FIN)
    }

    /// The same of a packet that has something behind its transport header. Who looks at packets of
    /// connections that are there alone need not tell.
    #[inline(always)]
    #[must_use]
    pub const fn with_payload(self) -> Self {
        Self(self.0 | PAYLOAD)
    }

    /// Whether it begins a connection.
    #[inline(always)]
    pub const fn opens(self) -> bool {
        self.0 & OPEN != 0
    }

    /// Whether it answers one that begins.
    #[inline(always)]
    pub const fn answers(self) -> bool {
        self.0 & ANSWER != 0
    }

    /// Whether it ends this side.
    #[inline(always)]
    pub const fn ends(self) -> bool {
        self.0 & FIN != 0
    }

    /// Whether its receiver has something to acknowledge: data or an end. Data that comes with a SYN does
    /// not count: its receiver may leave that unacknowledged.
    #[inline(always)]
    pub const fn advances(self) -> bool {
        self.0 & (PAYLOAD | FIN) != 0 && !self.opens()
    }

    /// Whether it ends the connection.
    #[inline(always)]
    pub const fn resets(self) -> bool {
        self.0 & RESET != 0
    }

    /// Whether it answers somebody else's packet and begins nothing: a SYN-ACK, an INIT ACK, a reset.
    #[inline(always)]
    pub const fn only_answers(self) -> bool {
        self.0 & (ANSWER | RESET) != 0
    }

    /// Whether an established connection learns nothing from it.
    #[inline(always)]
    pub const fn is_plain(self) -> bool {
        self.0 & (OPEN | ANSWER | FIN | RESET) == 0
    }

    /// Whether it acknowledges `number`, or at most so many bytes behind it.
    #[inline(always)]
    pub const fn acknowledges(self, number: u32, behind: u32) -> bool {
        self.0 & ACKNOWLEDGE != 0 && self.number().wrapping_sub(number) <= behind
    }

    /// The acknowledgment number, or a SYN's sequence number; 0 where there is none.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
