//! The source ports that connections are given, and the order in which they are tried.

use core::num::NonZeroU32;

use bytemuck::{Pod, Zeroable};

use crate::Address;

/// A range of ports with a prime number of them: then every stride leads to each port once before
/// it comes back to the first (double hashing, D. E. Knuth, The Art of Computer Programming 6.4).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct PortRange {
    /// The lowest port, host byte order.
    pub first: u16,
    /// Number of ports.
    pub count: u16,
}

impl PortRange {
    /// The longest range with a prime number of ports, or with one, that begins at `first` and
    /// goes no further than `last`; `None` if `first` is 0 or above `last`.
    #[must_use]
    pub const fn within(first: u16, last: u16) -> Option<Self> {
        if first == 0 || first > last {
            return None;
        }
        let mut count = last - first + 1;
        while !is_prime(count) && count > 1 {
            count -= 1;
        }
        Some(Self { first, count })
    }

    /// Returns whether `port`, in network order, is one of them.
    #[inline]
    pub const fn contains(&self, port: u16) -> bool {
        u16::from_be(port).wrapping_sub(self.first) < self.count
    }

    /// The shortest range with the ports of both. It is for looking whether a port is in it: their
    /// number is prime by chance.
    #[must_use]
    pub const fn covering(&self, other: &Self) -> Self {
        let first = if self.first < other.first {
            self.first
        } else {
            other.first
        };
        let ends = [self.end(), other.end()];
        let end = if ends[0] > ends[1] { ends[0] } else { ends[1] };
        // The first is not 0, so the number fits.
        Self {
            first,
            count: (end - first as u32) as u16,
        }
    }

    /// The port behind the last one.
    const fn end(self) -> u32 {
        self.first as u32 + self.count as u32
    }

    /// All ports in the order in which the client's connection tries them.
    ///
    /// The first is a stable function of the client's address and port, and ports of one client
    /// that follow each other begin at ports that follow each other: so a client that uses its
    /// port again gets the same one again, and two of its connections collide as late as they
    /// can. `port` is in network order.
    #[inline]
    pub fn probes(&self, client: &impl Address, port: u16) -> Probes {
        // A range is not empty; the type ensures it, and no division by 0 is left in the programs.
        let count = non_zero(self.count.into());
        let steps = non_zero(count.get() - 1);
        let port = u32::from(u16::from_be(port));
        let mut hash = 0;
        for word in client.words() {
            hash = mix(hash ^ *word);
        }
        Probes {
            range: *self,
            place: hash.wrapping_add(port) % count,
            stride: 1 + mix(hash ^ port) % steps,
        }
    }
}

/// The state of a search for a free port.
#[derive(Debug, Clone, Copy)]
pub struct Probes {
    range: PortRange,
    place: u32,
    stride: u32,
}

impl Probes {
    /// The next port, network order.
    #[inline]
    pub const fn next_port(&mut self) -> u16 {
        let port = self.range.first.wrapping_add(self.place as u16);
        self.place += self.stride;
        if self.place >= self.range.count as u32 {
            self.place -= self.range.count as u32;
        }
        port.to_be()
    }
}

const fn non_zero(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => NonZeroU32::MIN,
    }
}

/// A bijection of words in which every input bit changes half of the output bits (the last step
/// of A. Appleby's MurmurHash3).
#[inline]
const fn mix(word: u32) -> u32 {
    let word = (word ^ word >> 16).wrapping_mul(0x85eb_ca6b);
    let word = (word ^ word >> 13).wrapping_mul(0xc2b2_ae35);
    word ^ word >> 16
}

const fn is_prime(number: u16) -> bool {
    if number < 2 {
        return false;
    }
    let mut divisor = 2;
    while divisor * divisor <= number as u32 {
        if (number as u32).is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_port_is_tried_once(
            first in 1u16..,
            length in 0u16..3000,
            client: u32,
            port: u16,
        ) {
            let last = first.saturating_add(length);
            let range = PortRange::within(first, last).unwrap();
            prop_assert!(u32::from(range.count) * 2 > u32::from(last - first), "few are left out");
            let mut probes = range.probes(&client, port);
            let tried: BTreeSet<u16> = (0..range.count).map(|_| probes.next_port()).collect();
            prop_assert_eq!(tried.len(), usize::from(range.count));
            for port in tried {
                prop_assert!(range.contains(port) && (first..=last).contains(&u16::from_be(port)));
            }
        }

        #[test]
        fn a_port_outside_is_outside(port: u16) {
            let range = PortRange::within(61_000, 65_535).unwrap();
            let inside = (61_000..61_000 + range.count).contains(&u16::from_be(port));
            prop_assert_eq!(range.contains(port), inside);
        }
    }

    #[test]
    fn a_range_that_covers_two_has_the_ports_of_both() {
        let [low, high] =
            [(1, 5), (60_000, 65_535)].map(|(first, last)| PortRange::within(first, last).unwrap());
        for both in [low.covering(&high), high.covering(&low)] {
            for port in [1_u16, 5, 60_000, high.first + high.count - 1] {
                assert!(both.contains(port.to_be()), "{port}");
            }
            assert!(!both.contains(0));
        }
        assert_eq!(low.covering(&low), low);
        let all = PortRange {
            first: 1,
            count: u16::MAX,
        };
        assert_eq!(all.covering(&high), all);
    }

    #[test]
    fn a_range_is_not_empty() {
        assert_eq!(PortRange::within(5, 4), None);
        assert_eq!(PortRange::within(0, 4), None);
        let one = PortRange::within(65_535, 65_535).unwrap();
        let mut probes = one.probes(&7, 7);
        assert_eq!([probes.next_port(), probes.next_port()], [u16::MAX; 2]);
    }
}
