//! What the version before dated by its agent's clock: how its dates become ours, and the tables of
//! session affinity and fragments, which are as they were but for that.

use std::io;

use aya::maps::{HashMap, IterableMap as _, MapData, MapError};
use bytemuck::Pod;
use shunt_common::{AffinityEntry, Family, FragmentEntry};

use crate::{maps::clock::Rate, sys::raw::Raw};

/// The moment of the takeover, on each clock. That of the version before stands still since its
/// agent has gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dates {
    before: u32,
    tick: u32,
    second: u32,
    rate: Rate,
}

impl Dates {
    /// It is `before` on the clock of the version before, and this tick and second on ours.
    pub(crate) const fn new(before: u32, tick: u32, second: u32, rate: Rate) -> Self {
        Self {
            before,
            tick,
            second,
            rate,
        }
    }

    /// The tick of a date of the version before.
    pub(crate) fn tick(self, date: u32) -> u32 {
        self.tick.wrapping_sub(self.rate.ticks(self.age(date)))
    }

    /// The second of a date of the version before.
    pub(crate) const fn second(self, date: u32) -> u32 {
        self.second.wrapping_sub(self.age(date))
    }

    /// How many seconds ago it was; what is dated by no clock is of now.
    const fn age(self, date: u32) -> u32 {
        let age = self.before.wrapping_sub(date);
        if age > u32::MAX / 2 { 0 } else { age }
    }
}

/// An entry with a date in seconds.
pub(crate) trait Dated: Pod {
    /// The date.
    fn date(&mut self) -> &mut u32;
}

impl Dated for AffinityEntry {
    fn date(&mut self) -> &mut u32 {
        &mut self.last_used
    }
}

impl<F: Family> Dated for FragmentEntry<F> {
    fn date(&mut self) -> &mut u32 {
        &mut self.seen
    }
}

type Table<K, V> = HashMap<MapData, Raw<K>, Raw<V>>;

/// Copies the entries that are younger than ours; `second` gives what their dates are on our clock.
///
/// # Errors
///
/// If the kernel does not read or write them.
pub(crate) fn copy<K: Pod, V: Dated>(
    before: &Table<K, V>,
    ours: &mut Table<K, V>,
    second: impl Fn(u32) -> u32,
) -> io::Result<()> {
    let failure = |error| match error {
        MapError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    };
    let capacity = before.map().info().map_err(failure)?.max_entries();
    // While programs write, the walk may begin again: it ends all the same.
    for entry in before.iter().take(2 * capacity as usize) {
        let (key, Raw(mut entry)) = entry.map_err(failure)?;
        let date = entry.date();
        *date = second(*date);
        let date = *date;
        let is_older = match ours.get(&key, 0) {
            Ok(Raw(mut there)) => date.wrapping_sub(*there.date()) as i32 > 0,
            Err(_) => true,
        };
        if is_older {
            ours.insert(key, Raw(entry), 0).map_err(failure)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_count() {
        let dates = Dates::new(100, 4000, 50_000, Rate { hz: 250 });
        assert_eq!(dates.second(100), 50_000);
        assert_eq!(dates.second(40), 49_940);
        assert_eq!(dates.tick(40), 4000 - 235);
        assert_eq!(dates.tick(101), 4000, "nobody's date");
        let wrapped = Dates::new(5, 10, 20, Rate { hz: 64 });
        assert_eq!(wrapped.second(u32::MAX), 14);
        assert_eq!(wrapped.tick(u32::MAX - 10), 10_u32.wrapping_sub(16));
    }
}
