//! Events of connections and packets that the programs report to a watcher: one record of a ring an event.
//!
//! Records are not kept: their writers and readers come from one build.

use bytemuck::{Pod, Zeroable};

/// The kind of a record, as a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct FlowKind(pub u32);

impl FlowKind {
    /// A connection began.
    pub const OPENED: Self = Self(1);
    /// A connection ended.
    pub const ENDED: Self = Self(2);
    /// A packet was rejected.
    pub const REFUSED: Self = Self(4);
    /// A packet was dropped.
    pub const DROPPED: Self = Self(8);
    /// Each of them.
    pub const ALL: Self = Self(15);

    /// Returns whether it is one of those, or some of them are.
    #[inline(always)]
    pub const fn is_among(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// The cause of the end of a connection.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// Both sides have ended it.
    Finished = 0,
    /// One side has reset it.
    Reset = 1,
    /// No packet came for too long.
    TimedOut = 2,
    /// Another connection has its tuple, or its backend is gone.
    Replaced = 3,
    /// It gave way to another one for room.
    EarlyDrop = 4,
}

impl EndCause {
    /// That of this number.
    pub const fn of_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Finished,
            1 => Self::Reset,
            2 => Self::TimedOut,
            3 => Self::Replaced,
            4 => Self::EarlyDrop,
            _ => return None,
        })
    }

    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Reset => "reset",
            Self::TimedOut => "timed_out",
            Self::Replaced => "replaced",
            Self::EarlyDrop => "early_drop",
        }
    }
}

/// The head of both kinds of records.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct FlowHead {
    /// Time, in nanoseconds of the kernel's monotonic clock.
    pub time: u64,
    /// Its kind; one bit.
    pub kind: FlowKind,
    /// Of one that ended, the number of an [`EndCause`]; of a packet, the index of a
    /// [`Counter`](crate::Counter); else 0.
    pub reason: u32,
    /// The number of the service port; 0: none, or not known.
    pub service: u32,
    /// Of a connection, 4 or 6; of a packet, the index of the interface that it was at.
    pub place: u32,
}

/// A connection that began or ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct ConnectionRecord {
    /// Its head.
    pub head: FlowHead,
    /// Source and destination of packets of one direction as they come in: of IPv4 one word, of IPv6 four.
    pub came: [u64; 4],
    /// The same as they go on.
    pub goes: [u64; 4],
    /// The ports of `came`, network order: the source's in the lower half.
    pub came_ports: u32,
    /// The ports of `goes`.
    pub goes_ports: u32,
    /// IANA number.
    pub protocol: u8,
    /// 1 if the direction is the backend's; 0 if it is the client's.
    pub is_reply: u8,
    /// Nothing.
    pub reserved: [u8; 2],
    /// Of one that timed out, for how many ticks longer than it lasts neither side was heard.
    pub overdue: u32,
}

/// Maximum number of a packet's bytes in a record.
pub const PACKET_BYTES: usize = 128;

/// A packet that was refused or dropped.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct PacketRecord {
    /// Its head.
    pub head: FlowHead,
    /// Length of the frame.
    pub length: u32,
    /// Number of its bytes here.
    pub count: u32,
    /// The first ones.
    pub bytes: [u8; PACKET_BYTES],
}

const _: () = assert!(size_of::<ConnectionRecord>() == 104, "24 + 2 * 32 + 4 * 4");
const _: () = assert!(size_of::<PacketRecord>() == 160, "24 + 2 * 4 + 128");

/// The choice of events: the first entry of a table, which the agent writes. In the second one, programs count in
/// `lost`; its other words mean nothing. The entries that follow are a processor's each, for what it has to keep for a
/// moment.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct FlowControl {
    /// The kinds that a watcher wants, as the bits of a [`FlowKind`].
    pub kinds: u32,
    /// The connections that are reported, by their [sample](sample): those up to this. All bits: all.
    pub threshold: u32,
    /// Number of events that found no room. All processors write here.
    pub lost: u64,
    /// The connections that are reported, by their ends.
    pub ends: FlowEnds,
    /// Nothing: so that no two entries are on one cache line, or on two that come together.
    pub reserved: [u64; 4],
}

const _: () = assert!(size_of::<FlowControl>() == 128, "two cache lines");

impl FlowControl {
    /// The index of the entry with the choice of events.
    pub const CHOICE: u32 = 0;
    /// The index of the entry in which programs count what is lost.
    pub const LOSS: u32 = 1;
    /// The index of the first processor's.
    pub const PROCESSORS: u32 = 2;
}

/// The ends of the connections that are reported, for comparison with the words of [`ConnectionRecord::came`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct FlowEnds {
    /// Source and destination as the client's packets come in: of IPv4 one word, of IPv6 four.
    pub addresses: [u64; 4],
    /// The bits of them that are compared.
    pub address_mask: [u64; 4],
    /// Their ports, network order: the source's in the lower half.
    pub ports: u32,
    /// The bits of them that are compared.
    pub port_mask: u32,
    /// 4 or 6: of this family alone. 0: nothing is compared.
    pub family: u32,
    /// Nothing; no gap may be in what the kernel reads.
    pub reserved: u32,
}

impl FlowEnds {
    /// Returns whether these words of a connection of this family differ from what is wanted. The caller reads each
    /// word of the table once.
    #[inline(always)]
    pub const fn differs(have: u64, want: u64, mask: u64) -> bool {
        (have ^ want) & mask != 0
    }
}

/// Returns the place of a connection among all, by the words of its client's addresses and ports: a number by which as
/// many are taken as are wanted, the same ones at their begin and at their end.
#[inline(always)]
pub fn sample(words: &[u64], ports: u32) -> u32 {
    let mut sample = Sample::of(ports);
    for word in words {
        sample.add(*word);
    }
    sample.number()
}

/// A [`sample`] on its way, word by word.
#[derive(Debug, Clone, Copy)]
pub struct Sample(u64);

impl Sample {
    /// The multiplier of Fibonacci hashing, 2^64 divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Of these ports, before any word.
    #[inline(always)]
    pub const fn of(ports: u32) -> Self {
        Self((ports as u64).wrapping_mul(Self::FACTOR))
    }

    /// And this word.
    #[inline(always)]
    pub const fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(Self::FACTOR);
        self.0 ^= self.0 >> 32;
    }

    /// The number.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        (self.0.wrapping_mul(Self::FACTOR) >> 32) as u32
    }
}

/// The threshold by which one in `count` is taken; 0 and 1: all.
pub const fn threshold(count: u32) -> u32 {
    match count {
        0 | 1 => u32::MAX,
        _ => u32::MAX / count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_taken_whatever_the_connections_have_in_common() {
        for count in [1_u32, 2, 10, 100] {
            let threshold = threshold(count);
            let of_ports = (0..100_000_u32).filter(|port| sample(&[7], *port) <= threshold);
            let of_clients =
                (0..100_000_u64).filter(|client| sample(&[*client, 3], 80 << 16) <= threshold);
            let expected = 100_000 / count as usize;
            for taken in [of_ports.count(), of_clients.count()] {
                let is_near = taken.abs_diff(expected) <= expected / 5;
                assert!(is_near, "{taken} of 100000, one in {count}");
            }
        }
    }

    #[test]
    fn a_cause_is_the_one_of_its_number() {
        for number in 0..5 {
            assert_eq!(EndCause::of_number(number).unwrap() as u32, number);
        }
        assert_eq!(EndCause::of_number(5), None);
    }
}
