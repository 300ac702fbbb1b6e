//! Maglev tables (D. E. Eisenbud et al., NSDI 2016): maps from a packet's hash to a backend.
//!
//! Each backend has an order of its own in which it would like to have the table's entries, and they take turns with
//! the next entry that is still free. The table follows from the backends alone, address, port and weight, so that
//! nodes agree without communication; and when a backend goes, the others keep nearly all entries that they had.
//!
//! The number of a backend's turns follows from its weight, and is at least one. Turns are counted against a power of
//! two near the mean weight, which stays the same when one of many backends comes or goes.

use std::{net::IpAddr, num::NonZeroU32};

/// The sizes that tables have: the largest primes below the powers of four. Between two of them
/// nothing changes but what a backend takes with it or brings; from one to the next nearly all does,
/// so they are far apart.
const SIZES: [u32; 8] = [
    4093, 16_381, 65_521, 262_139, 1_048_573, 4_194_301, 16_777_213, 67_108_859,
];

/// The number of backends that the smallest table is made for.
const FEWEST: u64 = 40;

/// Maximum number of backends that a table distinguishes.
pub const MOST_BACKENDS: usize = 1 << 16;

/// The version of the tables: another one where the same backends have another table.
pub const VERSION: u64 = 1;

/// Minimum number of a table's entries for each backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntriesPerBackend(u32);

impl EntriesPerBackend {
    /// The fewest, and the default.
    pub const FEWEST: u32 = 100;
    /// The most.
    pub const MOST: u32 = 1000;

    /// So many; `None` if there are no such tables.
    pub const fn new(number: u32) -> Option<Self> {
        if number < Self::FEWEST || number > Self::MOST {
            return None;
        }
        Some(Self(number))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The size of a table of so many backends that take connections. Of more than
    /// [`MOST_BACKENDS`] there is none: that is the size of the largest.
    pub fn table_size(self, backends: usize) -> NonZeroU32 {
        let least = FEWEST.max(backends as u64) * u64::from(self.0);
        let fits = SIZES.into_iter().find(|size| u64::from(*size) >= least);
        let [.., largest] = SIZES;
        NonZeroU32::new(fits.unwrap_or(largest)).unwrap_or(NonZeroU32::MIN)
    }
}

impl Default for EntriesPerBackend {
    fn default() -> Self {
        Self(Self::FEWEST)
    }
}

/// The properties of a backend that a table depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its address.
    pub ip: IpAddr,
    /// Its port in host byte order.
    pub port: u16,
    /// Its share is weight / sum of weights; 0 has none.
    pub weight: u32,
}

/// A backend's turns, and the entries that it would like to have: `place`, and from there on in
/// steps of `step`, which come by all entries, since the size is prime.
struct Turns {
    position: u16,
    place: u32,
    step: u32,
    weight: u64,
    /// The part of its weight that has not led to a turn yet.
    due: u64,
}

/// The table of `size` entries: for each one the position in `backends` of the backend that has it.
/// Those of weight 0 have none. `None` if all have, or if they are too many.
///
/// Backends in the same order have the same table, so they are to be given in the order that is the
/// same everywhere: by address and port.
pub fn table(backends: &[Member], size: NonZeroU32) -> Option<Vec<u16>> {
    if backends.len() > MOST_BACKENDS {
        return None;
    }
    let size = size.get();
    let usable = || backends.iter().filter(|backend| backend.weight > 0);
    let sum: u64 = usable().map(|backend| u64::from(backend.weight)).sum();
    let unit = 1 << sum.checked_div(usable().count() as u64)?.ilog2();
    let mut all: Vec<Turns> = backends
        .iter()
        .zip(0..)
        .filter(|(backend, _)| backend.weight > 0)
        .map(|(backend, position)| Turns::new(backend, position, size, unit))
        .collect();
    let mut table = vec![0; size as usize];
    let mut taken = Taken::new(size);
    let mut left = size;
    loop {
        for turns in &mut all {
            turns.due += turns.weight;
            while turns.due >= unit {
                turns.due -= unit;
                table[turns.next(&mut taken, size)] = turns.position;
                left -= 1;
                if left == 0 {
                    return Some(table);
                }
            }
        }
    }
}

impl Turns {
    fn new(backend: &Member, position: u16, size: u32, unit: u64) -> Self {
        let Member { ip, port, weight } = *backend;
        let (low, high) = match ip {
            IpAddr::V4(ip) => (u64::from(u32::from(ip)), 4),
            IpAddr::V6(ip) => {
                let ip = u128::from(ip);
                (ip as u64, mix(mix(6) ^ (ip >> 64) as u64))
            }
        };
        let first = mix(mix(high ^ low) ^ u64::from(port));
        let second = mix(first);
        Self {
            position,
            place: scaled(first, size),
            // There is no entry if the size is 1, but then every step will do.
            step: scaled(second, size.max(2) - 1) + 1,
            weight: weight.into(),
            // So that each has a turn in the first round.
            due: unit - 1,
        }
    }

    /// Takes the next free entry, of which there is one.
    fn next(&mut self, taken: &mut Taken, size: u32) -> usize {
        loop {
            let place = self.place;
            // Both are below the size, which is below 2^31.
            self.place += self.step;
            if self.place >= size {
                self.place -= size;
            }
            if taken.take(place) {
                return place as usize;
            }
        }
    }
}

/// The entries that are taken: a bit each, so that they stay in the CPU's caches.
struct Taken(Vec<u64>);

impl Taken {
    fn new(size: u32) -> Self {
        Self(vec![0; size.div_ceil(64) as usize])
    }

    /// Takes the entry. Returns whether it was free.
    fn take(&mut self, place: u32) -> bool {
        let word = &mut self.0[(place / 64) as usize];
        let bit = 1 << (place % 64);
        let is_free = *word & bit == 0;
        *word |= bit;
        is_free
    }
}

/// The number's upper half as a part of `range`.
const fn scaled(number: u64, range: u32) -> u32 {
    (((number >> 32) * range as u64) >> 32) as u32
}

/// A bijection that spreads neighbours (`SplitMix64`, G. L. Steele et al., OOPSLA 2014).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A number for what the table of these backends and of this size depends on, and nothing else.
pub fn fingerprint(backends: &[Member], size: NonZeroU32) -> u64 {
    let mut number = mix(VERSION ^ u64::from(size.get()) << 32);
    for &Member { ip, port, weight } in backends {
        let (high, low) = match ip {
            IpAddr::V4(ip) => (4, u64::from(u32::from(ip))),
            IpAddr::V6(ip) => ((u128::from(ip) >> 64) as u64, u128::from(ip) as u64),
        };
        for word in [high, low, u64::from(port) | u64::from(weight) << 16] {
            number = mix(number ^ word);
        }
    }
    number
}

#[cfg(test)]
mod tests;
