//! Service ports by number: what is counted of each.

use bytemuck::{Pod, Zeroable};

use crate::Counter;

/// The number of a service port: its index in the tables (16 bits), and the use of that index (15 bits). A connection
/// remembers it for as long as it lasts, which distinguishes a later owner of the index from an earlier one. 0 is no
/// service port.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Pod, Zeroable)]
pub struct ServiceNumber(pub u32);

impl ServiceNumber {
    /// Limit of the indexes; the first one has no owner.
    pub const LIMIT: u32 = 1 << Self::INDEX_BITS;

    const INDEX_BITS: u32 = 16;
    const GENERATIONS: u32 = 1 << 15;

    /// Of the service port at `index`, which is below [`Self::LIMIT`], in its use `generation`, of which
    /// the lowest 15 bits count.
    #[inline(always)]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self(index | (generation % Self::GENERATIONS) << Self::INDEX_BITS)
    }

    /// Its index in the tables.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0 & (Self::LIMIT - 1)
    }

    /// Returns the use of the index.
    #[inline(always)]
    pub const fn generation(self) -> u32 {
        self.0 >> Self::INDEX_BITS
    }

    /// The next use of the same index.
    #[inline(always)]
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.index(), self.generation() + 1)
    }
}

/// Number of counters of each service port by itself.
const REFUSALS: usize = 14;

/// A service port, by index.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct ServiceEntry {
    /// The next agent knows the owner of the index by it; 0: none.
    pub fingerprint: u64,
    /// The number that it has, or had last.
    pub number: ServiceNumber,
    /// Zero.
    pub padding: u32,
    /// Its packets and calls that were rejected or dropped, at the places of [`Self::place`]. All processors write
    /// here.
    pub refused: [u64; REFUSALS],
}

const _: () = assert!(
    size_of::<ServiceEntry>() == 128,
    "8 + 4 + 4 + 14 * 8: two cache lines"
);

impl ServiceEntry {
    /// The counters of each service port by itself, in the order of its entry.
    pub const REFUSALS: [Counter; REFUSALS] = [
        Counter::RejectNoBackend,
        Counter::DropRejectRate,
        Counter::DropNoBackend,
        Counter::DropSourceRange,
        Counter::DropConntrackFull,
        Counter::DropNoPort,
        Counter::DropNoNodeIp,
        Counter::DropNoRoute,
        Counter::RejectTooLong,
        Counter::RejectExpired,
        Counter::DropRewrite,
        Counter::DropCorrupt,
        Counter::DropMartian,
        Counter::DropSourceRoute,
    ];

    /// Returns the place of the counter with this index; `None` if it has none. Comparisons alone: the compiler makes
    /// no table of it.
    #[inline(always)]
    pub const fn place(counter: u32) -> Option<usize> {
        const FIRST: u32 = Counter::RejectNoBackend as u32;
        const LAST: u32 = Counter::DropCorrupt as u32;
        const FIRST_OF_OTHERS: u32 = Counter::DropMartian as u32;
        const LAST_OF_OTHERS: u32 = Counter::DropSourceRoute as u32;
        if counter >= FIRST && counter <= LAST {
            Some((counter - FIRST) as usize)
        } else if counter >= FIRST_OF_OTHERS && counter <= LAST_OF_OTHERS {
            Some((counter - FIRST_OF_OTHERS + LAST - FIRST + 1) as usize)
        } else {
            None
        }
    }
}

/// Traffic to a service port and back, as one processor has counted it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct ServiceTraffic {
    /// Number of the service port: a packet of a connection that remembers another number is not counted.
    pub number: u64,
    /// Packets of clients.
    pub request_packets: u64,
    /// Their bytes, from the IP header on.
    pub request_bytes: u64,
    /// Packets of backends.
    pub reply_packets: u64,
    /// Their bytes, likewise.
    pub reply_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_back_what_it_was_made_of() {
        let last = ServiceNumber::new(ServiceNumber::LIMIT - 1, ServiceNumber::GENERATIONS - 1);
        assert_eq!(last.0 >> 31, 0, "a connection has 31 bits for it");
        assert_eq!(last.index(), ServiceNumber::LIMIT - 1);
        assert_eq!(last.generation(), ServiceNumber::GENERATIONS - 1);
        assert_eq!(last.next(), ServiceNumber::new(last.index(), 0));
        assert_eq!(ServiceNumber::new(7, 3).next(), ServiceNumber::new(7, 4));
    }

    #[test]
    fn each_refusal_has_its_place() {
        for counter in Counter::ALL {
            let listed = ServiceEntry::REFUSALS
                .iter()
                .position(|one| *one == counter);
            assert_eq!(
                ServiceEntry::place(counter as u32),
                listed,
                "{}",
                counter.name()
            );
        }
    }
}
