//! The kernel's tables of service ports.

use std::{fmt, io};

use aya::{
    Ebpf,
    maps::{MapData, MapError, PerCpuArray, PerCpuValues},
    util::nr_cpus,
};
use bytemuck::Zeroable as _;
use shunt_common::{
    ServiceEntry, ServiceNumber, ServiceTraffic,
    registry::{self, FamilyMaps},
};

use crate::{
    error::DatapathError,
    maps::{
        object_maps::{shared, take},
        service_table::{FrontendsOf, ServiceCounts, ServiceTable, TrafficCounts, refused},
    },
    sys::{raw::Raw, shared_array::SharedArray},
};

/// Packets and bytes in the kernel.
type Traffic = PerCpuArray<MapData, Raw<ServiceTraffic>>;

/// The tables in the kernel.
pub(crate) struct KernelServices {
    entries: SharedArray<ServiceEntry>,
    connections: PerCpuArray<MapData, u64>,
    /// `None` if packets are not counted.
    traffic: Option<Traffic>,
    v4: SharedArray<u32>,
    v6: SharedArray<u32>,
}

impl fmt::Debug for KernelServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelServices")
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl KernelServices {
    /// Takes the tables out of the loaded object; `counts_traffic`: its programs count packets.
    pub(crate) fn take(ebpf: &mut Ebpf, counts_traffic: bool) -> Result<Self, DatapathError> {
        Ok(Self {
            entries: shared(ebpf, registry::SERVICES)?,
            connections: take(ebpf, registry::SERVICE_CONNECTIONS)?,
            traffic: counts_traffic
                .then(|| take(ebpf, registry::SERVICE_TRAFFIC))
                .transpose()?,
            v4: shared(ebpf, FamilyMaps::V4.frontend_services)?,
            v6: shared(ebpf, FamilyMaps::V6.frontend_services)?,
        })
    }

    /// Has all processors count for this number at the index, from 0 on.
    fn set_traffic(&mut self, index: u32, number: ServiceNumber) -> io::Result<()> {
        let Some(traffic) = &mut self.traffic else {
            return Ok(());
        };
        let value = ServiceTraffic {
            number: number.0.into(),
            ..ServiceTraffic::zeroed()
        };
        traffic
            .set(index, everywhere(Raw(value))?, 0)
            .map_err(io_error)
    }
}

/// One value for all processors.
fn everywhere<T: aya::Pod>(value: T) -> io::Result<PerCpuValues<T>> {
    let processors = nr_cpus().map_err(|(_, error)| error)?;
    PerCpuValues::try_from(vec![value; processors])
}

fn io_error(error: MapError) -> io::Error {
    match error {
        MapError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    }
}

impl ServiceTable for KernelServices {
    fn capacity(&self) -> u32 {
        self.entries.len()
    }

    fn entry(&self, index: u32) -> ServiceEntry {
        self.entries.read(index)
    }

    fn begin(&mut self, number: ServiceNumber, fingerprint: u64) -> io::Result<()> {
        let index = number.index();
        if self.entries.read(index).number != ServiceNumber::default() {
            // Another service port has had it.
            self.connections
                .set(index, everywhere(0)?, 0)
                .map_err(io_error)?;
        }
        self.set_traffic(index, number)?;
        let entry = ServiceEntry {
            fingerprint,
            number,
            ..ServiceEntry::zeroed()
        };
        self.entries.write(index, entry);
        Ok(())
    }

    fn resume(&mut self, number: ServiceNumber) -> io::Result<()> {
        let index = number.index();
        let Some(traffic) = &self.traffic else {
            return Ok(());
        };
        let values = traffic.get(&index, 0).map_err(io_error)?;
        let counts = |Raw(value): &Raw<ServiceTraffic>| value.number == u64::from(number.0);
        if values.iter().all(counts) {
            return Ok(());
        }
        // Packets were not counted until now.
        self.set_traffic(index, number)
    }

    fn end(&mut self, index: u32) -> io::Result<()> {
        let entry = ServiceEntry {
            fingerprint: 0,
            ..self.entries.read(index)
        };
        self.entries.write(index, entry);
        self.set_traffic(index, ServiceNumber::default())
    }

    fn counts(&self, index: u32) -> io::Result<ServiceCounts> {
        let connections = self.connections.get(&index, 0).map_err(io_error)?;
        let traffic = self.traffic.as_ref().map(|traffic| {
            let values = traffic.get(&index, 0).map_err(io_error)?;
            let values = values.iter().map(|Raw(value)| value);
            Ok::<_, io::Error>(values.fold(TrafficCounts::default(), TrafficCounts::and))
        });
        Ok(ServiceCounts {
            connections: connections.iter().sum(),
            refused: refused(&self.entries.read(index)),
            traffic: traffic.transpose()?,
        })
    }

    fn of_frontend(&self, family: FrontendsOf, frontend: u32) -> ServiceNumber {
        ServiceNumber(match family {
            FrontendsOf::V4 => self.v4.read(frontend),
            FrontendsOf::V6 => self.v6.read(frontend),
        })
    }

    fn set_of_frontend(&mut self, family: FrontendsOf, frontend: u32, number: ServiceNumber) {
        match family {
            FrontendsOf::V4 => self.v4.write(frontend, number.0),
            FrontendsOf::V6 => self.v6.write(frontend, number.0),
        }
    }
}
