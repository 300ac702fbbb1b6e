//! Tables of service ports in plain memory, for tests.

use std::{collections::HashMap, io};

use bytemuck::Zeroable as _;
use shunt_common::{ServiceEntry, ServiceNumber};

use crate::maps::service_table::{FrontendsOf, ServiceCounts, ServiceTable, refused};

/// The tables, as packets would see them.
#[derive(Debug, Clone)]
pub(crate) struct MemoryServices {
    /// Service ports by index.
    pub(crate) entries: Vec<ServiceEntry>,
    /// Number of connections that each had.
    pub(crate) connections: Vec<u64>,
    /// The service ports of frontends: of IPv6 or not, and by index.
    pub(crate) of_frontends: HashMap<(bool, u32), ServiceNumber>,
    /// Number of writes.
    pub(crate) writes: usize,
}

impl MemoryServices {
    /// Empty tables of this size.
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            entries: vec![ServiceEntry::zeroed(); capacity as usize],
            connections: vec![0; capacity as usize],
            of_frontends: HashMap::new(),
            writes: 0,
        }
    }
}

impl ServiceTable for MemoryServices {
    fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }

    fn entry(&self, index: u32) -> ServiceEntry {
        self.entries[index as usize]
    }

    fn begin(&mut self, number: ServiceNumber, fingerprint: u64) -> io::Result<()> {
        self.writes += 1;
        self.connections[number.index() as usize] = 0;
        self.entries[number.index() as usize] = ServiceEntry {
            fingerprint,
            number,
            ..ServiceEntry::zeroed()
        };
        Ok(())
    }

    fn resume(&mut self, _: ServiceNumber) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, index: u32) -> io::Result<()> {
        self.writes += 1;
        self.entries[index as usize].fingerprint = 0;
        Ok(())
    }

    fn counts(&self, index: u32) -> io::Result<ServiceCounts> {
        Ok(ServiceCounts {
            connections: self.connections[index as usize],
            refused: refused(&self.entries[index as usize]),
            traffic: None,
        })
    }

    fn of_frontend(&self, family: FrontendsOf, frontend: u32) -> ServiceNumber {
        let place = (family == FrontendsOf::V6, frontend);
        self.of_frontends.get(&place).copied().unwrap_or_default()
    }

    fn set_of_frontend(&mut self, family: FrontendsOf, frontend: u32, number: ServiceNumber) {
        self.writes += 1;
        let place = (family == FrontendsOf::V6, frontend);
        self.of_frontends.insert(place, number);
    }
}
