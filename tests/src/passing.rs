//! Time that passes for what the kernel programs remember, without waiting for it: what is dated
//! becomes older.

use std::{
    io,
    os::fd::AsFd as _,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result, bail, ensure};
use aya::{
    Ebpf,
    maps::{HashMap, Map, MapData},
};
use nix::libc;
use shunt_common::{
    SCTP, TCP, V4, V6,
    connections::{Facts, Meta, Role, Slot as _, Times, Wide, place},
    registry::{self, FamilyMaps},
};

use crate::{connection_slots::ConnectionSlots, pin_dir::PinDir};

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Makes all that is remembered `seconds` older. `open` returns the tables.
///
/// # Errors
///
/// If a table is another, or the kernel refuses.
pub fn let_pass(open: impl Fn(registry::Map) -> io::Result<MapData>, seconds: u32) -> Result<()> {
    let open = |map: registry::Map| open(map).with_context(|| format!("opening {}", map.name));
    let clock = Clock::of(seconds)?;
    let FamilyMaps {
        conntrack,
        affinity,
        fragments,
        ..
    } = FamilyMaps::V4;
    age_connections::<V4>(&open(conntrack)?, &clock)?;
    age::<[u8; 12], 3>(open(affinity)?, 1, seconds)?;
    age::<[u8; 16], 4>(open(fragments)?, 3, seconds)?;
    let FamilyMaps {
        conntrack,
        affinity,
        fragments,
        ..
    } = FamilyMaps::V6;
    age_connections::<V6>(&open(conntrack)?, &clock)?;
    age::<[u8; 36], 3>(open(affinity)?, 1, seconds)?;
    age::<[u8; 40], 10>(open(fragments)?, 9, seconds)
}

/// A table of an object that is loaded here, opened once more.
///
/// # Errors
///
/// If there is none.
pub fn of_object(ebpf: &Ebpf, map: registry::Map) -> io::Result<MapData> {
    let Some(Map::Array(data) | Map::LruHashMap(data)) = ebpf.map(map.name) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    MapData::from_fd(data.fd().as_fd().try_clone_to_owned()?).map_err(io::Error::other)
}

/// A pinned table.
///
/// # Errors
///
/// If there is none.
pub fn of_pins(pins: &PinDir, map: registry::Map) -> io::Result<MapData> {
    MapData::from_pin(pins.path().join("maps").join(map.pin)).map_err(io::Error::other)
}

/// The clock of the programs, to a few ticks.
struct Clock {
    /// The tick.
    now: u32,
    /// So many ticks are to pass.
    passing: u32,
}

impl Clock {
    /// At least so many seconds are to pass.
    fn of(seconds: u32) -> Result<Self> {
        let nanoseconds = |time: libc::timespec| time.tv_sec as u64 * SECOND + time.tv_nsec as u64;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel writes the resolution.
        let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
        ensure!(result == 0, io::Error::last_os_error());
        let jiffy = nanoseconds(time);
        // SAFETY: the kernel writes the time.
        let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        ensure!(result == 0, io::Error::last_os_error());
        // The kernel begins five minutes before the lower half of its jiffies is full.
        let jiffies = (1 << 32) - 300 * (SECOND / jiffy) + nanoseconds(time) / jiffy;
        let ticks = (u64::from(seconds) * SECOND).div_ceil(64 * jiffy);
        Ok(Self {
            now: (jiffies >> 6) as u32,
            passing: u32::try_from(ticks)?.min(u32::MAX / 4),
        })
    }

    /// The tick of what was at `tick`, and is to be older. What is older than half of all ticks would
    /// be of the future.
    const fn older(&self, tick: u32) -> u32 {
        let age = self.now.wrapping_sub(tick);
        if age > u32::MAX / 4 && age < u32::MAX / 2 {
            tick
        } else {
            tick.wrapping_sub(self.passing)
        }
    }
}

/// Makes the connections older.
fn age_connections<F: Wide>(map: &MapData, clock: &Clock) -> Result<()> {
    for slot in ConnectionSlots::<F>::map(map)?.all() {
        let meta = Meta(slot.load(place::META));
        if !meta.is_live() {
            continue;
        }
        let older = |times: u64| {
            let times = Times(times);
            times.at(clock.older(times.last_seen())).0
        };
        change(slot.word(place::TIMES), older);
        // The age of a flow.
        if meta.role() == Role::Reply && !matches!(meta.protocol(), TCP | SCTP) {
            let older = |facts: u64| {
                let facts = Facts(facts);
                facts.with_mark(clock.older(facts.mark())).0
            };
            change(slot.word(place::FACTS), older);
        }
    }
    Ok(())
}

fn change(word: &AtomicU64, how: impl Fn(u64) -> u64) {
    // It always changes.
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |value| {
        Some(how(value))
    });
}

/// Makes the entries of a hash older, which have their date as the word at `place`.
fn age<K: aya::Pod, const N: usize>(map: MapData, place: usize, seconds: u32) -> Result<()>
where
    [u32; N]: aya::Pod,
{
    let map = Map::from_map_data(map)?;
    if !matches!(map, Map::HashMap(_) | Map::LruHashMap(_)) {
        bail!("no hash");
    }
    let mut entries = HashMap::<_, K, [u32; N]>::try_from(map)?;
    let all: Vec<_> = entries.iter().collect::<Result<_, _>>()?;
    for (key, mut entry) in all {
        entry[place] = entry[place].wrapping_sub(seconds);
        entries.insert(key, entry, 0)?;
    }
    Ok(())
}
