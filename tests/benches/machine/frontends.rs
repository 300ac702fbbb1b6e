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

use super::world::{ENDPOINTS, PORT, SERVICES, cluster_ip};

/// How long whatever is waited for may take.
const LIMIT: Duration = Duration::from_mins(1);

/// How often it is looked whether all frontends are there.
const LOOK: Duration = Duration::from_millis(1);

/// TCP, as IANA numbers it.
const TCP: u8 = 6;

/// A key of the table of frontends: address, port, protocol, scope.
type Key = [u8; 8];

/// The frontends of all services.
pub(super) struct Kernel {
    cells: MmapRaw,
    /// Where each service's cell is.
    indexes: Vec<u32>,
}

impl Kernel {
    /// Waits until all services are in the tables that are pinned at `pins`, with all of their
    /// endpoints. Gives when they were.
    ///
    /// # Errors
    ///
    /// If they never are, or the tables cannot be read.
    pub(super) fn await_all(pins: &Path) -> Result<(Self, Instant)> {
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
        let mut kernel = Self {
            cells,
            indexes: Vec::new(),
        };
        let deadline = Instant::now() + LIMIT;
        while (kernel.indexes.len() as u32) < SERVICES {
            let next = kernel.indexes.len() as u32;
            match frontends.get(&key(cluster_ip(next)), 0) {
                Ok(index) => kernel.indexes.push(index),
                Err(_) if Instant::now() < deadline => {
                    interrupt::check()?;
                    thread::sleep(LOOK);
                }
                Err(error) => bail!("service {next} is not in the kernel: {error}"),
            }
        }
        let at = Instant::now();
        for service in 0..SERVICES {
            let count = kernel.cell(service).count();
            ensure!(
                count == ENDPOINTS,
                "service {service} has {count} endpoints"
            );
        }
        Ok((kernel, at))
    }

    /// A service's cell.
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a mapping begins at a page, and cells are words"
    )]
    pub(super) fn cell(&self, service: u32) -> Cell {
        let index = self.indexes[service as usize] as usize;
        assert!(index < self.cells.len() / size_of::<Cell>());
        let cell = self.cells.as_mut_ptr().cast::<u64>();
        // SAFETY: within the mapping, aligned, and only ever replaced by whole stores.
        let cell = unsafe { AtomicU64::from_ptr(cell.add(index)) };
        Cell::from_word(cell.load(Ordering::Acquire))
    }

    /// Waits until a service's cell is another one than `before`. Gives when it was.
    ///
    /// # Errors
    ///
    /// If it stays.
    pub(super) fn await_other(&self, service: u32, before: Cell) -> Result<Instant> {
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

fn key(address: Ipv4Addr) -> Key {
    let [a, b, c, d] = address.octets();
    let [high, low] = PORT.to_be_bytes();
    [a, b, c, d, high, low, TCP, 0]
}
