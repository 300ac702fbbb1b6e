//! The frontends of an agent, in the tables that it has pinned.

use std::{
    net::Ipv4Addr,
    os::fd::{AsFd as _, AsRawFd as _},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use aya::maps::{HashMap, Map, MapData};
use memmap2::{MmapOptions, MmapRaw};
use shunt_common::{Cell, registry::FamilyMaps};
use shunt_tests::interrupt;

/// Limit of the time of a change.
const LIMIT: Duration = Duration::from_mins(1);

/// Interval of the polls for all frontends.
const LOOK: Duration = Duration::from_millis(1);

/// TCP, as IANA numbers it.
const TCP: u8 = 6;

/// A key of the table of frontends: address, port, protocol, scope.
type Key = [u8; 8];

/// Expected content of the tables: services that are alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Number of services.
    pub(crate) services: u32,
    /// Number of backends of each.
    pub(crate) backends: u32,
    /// The address of each.
    pub(crate) address: fn(u32) -> Ipv4Addr,
    /// The port of all.
    pub(crate) port: u16,
    /// Limit of the time until all are there.
    pub(crate) limit: Duration,
}

/// The frontends of all services.
pub(crate) struct Frontends {
    cells: MmapRaw,
    /// Index of each service's cell.
    indexes: Vec<u32>,
}

impl Frontends {
    /// Waits until all services are in the tables that are pinned at `pins`, with all of their
    /// backends. Returns the time of that.
    ///
    /// # Errors
    ///
    /// If they never are, or the tables cannot be read.
    pub(crate) fn await_all(pins: &Path, expected: Expected) -> Result<(Self, Instant)> {
        let Expected {
            services,
            backends,
            address,
            port,
            limit,
        } = expected;
        let maps = pins.join("maps");
        let map = MapData::from_pin(maps.join(FamilyMaps::V4.frontends.pin))?;
        let frontends = HashMap::<_, Key, u32>::try_from(Map::HashMap(map))?;
        let map = MapData::from_pin(maps.join(FamilyMaps::V4.cells.pin))?;
        let info = map.info()?;
        ensure!(
            info.value_size() as usize == size_of::<Cell>(),
            "cells of another size"
        );
        let cells = MmapOptions::new()
            .len(info.max_entries() as usize * size_of::<Cell>())
            .map_raw_read_only(map.fd().as_fd().as_raw_fd())?;
        let mut all = Self {
            cells,
            indexes: Vec::new(),
        };
        let deadline = Instant::now() + limit;
        while (all.indexes.len() as u32) < services {
            let next = all.indexes.len() as u32;
            match frontends.get(&key(address(next), port), 0) {
                Ok(index) => all.indexes.push(index),
                Err(_) if Instant::now() < deadline => {
                    interrupt::check()?;
                    thread::sleep(LOOK);
                }
                Err(error) => bail!("service {next} is not in the kernel: {error}"),
            }
        }
        let at = Instant::now();
        for service in 0..services {
            let count = all.cell(service).count();
            ensure!(count == backends, "service {service} has {count} backends");
        }
        Ok((all, at))
    }

    /// A service's cell.
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a mapping begins at a page, and cells are words"
    )]
    pub(crate) fn cell(&self, service: u32) -> Cell {
        let index = self.indexes[service as usize] as usize;
        assert!(index < self.cells.len() / size_of::<Cell>());
        let cell = self.cells.as_mut_ptr().cast::<u64>();
        // SAFETY: within the mapping, aligned, and only ever replaced by whole stores.
        let cell = unsafe { AtomicU64::from_ptr(cell.add(index)) };
        Cell::from_word(cell.load(Ordering::Acquire))
    }

    /// Waits until a service's cell is another one than `before`. Returns the time of that.
    ///
    /// # Errors
    ///
    /// If it stays.
    pub(crate) fn await_other(&self, service: u32, before: Cell) -> Result<Instant> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let cell = self.cell(service);
            let now = Instant::now();
            if cell != before {
                return Ok(now);
            }
            ensure!(now < deadline, "service {service} stays as it was");
            thread::yield_now();
        }
    }
}

fn key(address: Ipv4Addr, port: u16) -> Key {
    let [a, b, c, d] = address.octets();
    let [high, low] = port.to_be_bytes();
    [a, b, c, d, high, low, TCP, 0]
}
