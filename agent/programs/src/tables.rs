//! The programs' tables and constants, by the names that they have in the kernel.

use aya_ebpf::{Global, btf_maps::SkStorage, table::Table};
use bytemuck::{Pod, bytes_of, pod_read_unaligned};

use crate::{
    calls::Remembered,
    maps::{
        conntrack, constants, counters, flows, handover, reached, services, sockets, stations,
        tables, variables,
    },
};

/// All tables but those of sockets.
macro_rules! tables {
    ($($room:ident: $($name:ident)*;)*) => {
        /// Each table that packets' programs use, and its name.
        static TABLES: &[(&str, &dyn Table)] = &[$($((stringify!($name), &$room::$name)),*),*];
    };
}

tables! {
    tables: FRONTENDS_V4 CELLS_V4 SLOTS_V4 BACKENDS_V4 SOURCE_RANGES_V4 AFFINITY_V4 FRAGMENTS_V4
        NODE_V4 OPENINGS_V4 ARRIVALS_V4 HOPS_V4 WAYS_V4 ORIGINS_V4 HALFWAY_V4 ADDRESSES_V4
        GUARDED_V4 SERVICE_CIDRS_V4 FRONTEND_SERVICES_V4 LOCATIONS_V4 FRONTENDS_V6 CELLS_V6 SLOTS_V6
        BACKENDS_V6 SOURCE_RANGES_V6 AFFINITY_V6 FRAGMENTS_V6 NODE_V6 OPENINGS_V6 ARRIVALS_V6
        HOPS_V6 WAYS_V6 ORIGINS_V6 HALFWAY_V6 ADDRESSES_V6 GUARDED_V6 SERVICE_CIDRS_V6
        FRONTEND_SERVICES_V6 LOCATIONS_V6 PATHS_V4 PATHS_V6 EXHAUSTIONS DIRECT REJECTIONS
        LOOKUPS LET_THROUGH
        PEERS INTERFACES UPLINKS BACKEND_CONNECTIONS_V4 BACKEND_CONNECTIONS_V6;
    conntrack: CONNTRACK_V4 CONNTRACK_V6 RESIZED_CONNTRACK_V4 RESIZED_CONNTRACK_V6 SOUGHT_V6;
    handover: CARRIERS_V4 CARRIERS_V6 HANDOVER SEEDS GIVEN_PORTS;
    services: SERVICES SERVICE_CONNECTIONS SERVICE_TRAFFIC;
    counters: COUNTERS;
    flows: FLOW_CONTROL;
    variables: VARIABLES;
    reached: REACHED;
    stations: STATIONS;
}

/// Bytes of a constant.
trait Constant: Sync {
    /// Puts these into it; gives how many it wants if they are others.
    fn set(&self, bytes: &[u8]) -> Result<(), usize>;
}

impl<T: Copy + Send> Constant for Global<T> {
    fn set(&self, bytes: &[u8]) -> Result<(), usize> {
        if bytes.len() != size_of::<T>() {
            return Err(size_of::<T>());
        }
        // SAFETY: so many bytes are there, every value of which is one of `T` (numbers and arrays of them), and one
        // thread has the turn.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.as_ptr().cast(), bytes.len());
        }
        Ok(())
    }
}

macro_rules! constants {
    ($($room:ident: $($name:ident)*;)*) => {
        /// Each constant, and its name.
        static CONSTANTS: &[(&str, &dyn Constant)] =
            &[$($((stringify!($name), &$room::$name)),*),*];
    };
}

constants! {
    constants: PACKETS_V4 PACKETS_V6 POD_CIDRS_V4 POD_CIDRS_V6 CLUSTER_CIDRS_V4 CLUSTER_CIDRS_V6
        DSR_SOURCES_V4 DSR_SOURCES_V6 HAIRPIN_IP_V4 HAIRPIN_IP_V6 LOCAL_NODE_PORTS_V4 LOCAL_NODE_PORTS_V6 CONNTRACK_HOMES_V4 CONNTRACK_HOMES_V6 SNAT_PORTS
        REPLY_PORTS REJECT_INTERVAL_NS REJECT_BURST CLIENT_SHARE REDIRECT PODS_BY_INTERFACE MASQUERADE_ALL
        HOST_NETNS SOCKETS_OF_PODS TASK_FLAGS CHOSEN_BY_PACKET GUARD COUNT_TRAFFIC LOWER_MSS CONNTRACK_SEEDS
        CONNTRACK_TIMEOUTS CLOCK_HZ;
    handover: PREVIOUS_HOMES_V4 PREVIOUS_HOMES_V6 HANDS_OVER;
}

/// The table of this name; `None` if no program of a packet's uses one.
pub(crate) fn table(name: &str) -> Option<&'static dyn Table> {
    let found = TABLES.iter().find(|(known, _)| *known == name);
    found.map(|(_, table)| *table)
}

/// The name of the table at this address.
pub(crate) fn name_at(address: usize) -> Option<&'static str> {
    let at = |table: &'static dyn Table| (&raw const *table).cast::<()>() as usize;
    let found = TABLES.iter().find(|(_, table)| at(*table) == address);
    found.map(|(name, _)| *name)
}

/// Has every table be empty, and what sockets have.
pub(crate) fn clear() {
    for (_, table) in TABLES {
        table.clear();
    }
    forget_sockets();
}

/// Has no socket remember anything.
pub(crate) fn forget_sockets() {
    sockets::SOCKETS_CONNECTED.clear();
    sockets::SOCKETS_BEFORE.clear();
    sockets::SOCKETS_ASKED.clear();
}

/// Returns the storage of the socket at this address.
pub(crate) fn remembered(socket: usize) -> Remembered {
    Remembered {
        connected: value(&sockets::SOCKETS_CONNECTED, socket),
        before: value(&sockets::SOCKETS_BEFORE, socket),
        asked: value(&sockets::SOCKETS_ASKED, socket),
    }
}

fn value<T: Pod>(table: &SkStorage<T>, socket: usize) -> Option<T> {
    table.value(socket).map(|bytes| pod_read_unaligned(&bytes))
}

/// Has the socket at this address, which has nothing yet, have this.
pub(crate) fn remember(socket: usize, remembered: &Remembered) {
    let Remembered {
        connected,
        before,
        asked,
    } = remembered;
    put(&sockets::SOCKETS_CONNECTED, socket, connected.as_ref());
    put(&sockets::SOCKETS_BEFORE, socket, before.as_ref());
    put(&sockets::SOCKETS_ASKED, socket, asked.as_ref());
}

fn put<T: Pod>(table: &SkStorage<T>, socket: usize, value: Option<&T>) {
    if let Some(value) = value {
        // A value of the table's own type has its size.
        let _ = table.put(socket, bytes_of(value));
    }
}

/// Sets a constant. `Err`: how many bytes it wants, if there is one of this name.
pub(crate) fn set_constant(name: &str, bytes: &[u8]) -> Result<(), Option<usize>> {
    let found = CONSTANTS.iter().find(|(known, _)| *known == name);
    let (_, constant) = found.ok_or(None)?;
    constant.set(bytes).map_err(Some)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use shunt_common::registry::{self, FamilyConstants};

    use super::*;

    /// The tables that only an agent, or iterators, have to do with, the log, the events of connections, and the
    /// programs.
    const OTHERS: [registry::Map; 6] = [
        registry::IPV6_PROGRAMS,
        registry::SOCKETS_CONNECTED,
        registry::SOCKETS_BEFORE,
        registry::SOCKETS_ASKED,
        registry::PACKET_LOG,
        registry::FLOW_EVENTS,
    ];

    #[test]
    fn every_map_of_the_registry_is_here() {
        let here: BTreeSet<_> = TABLES.iter().map(|(name, _)| *name).collect();
        let others = OTHERS.map(|map| map.name);
        let registered: BTreeSet<_> = registry::maps().map(|map| map.name).collect();
        let expected: BTreeSet<_> = registered
            .into_iter()
            .filter(|name| !others.contains(name))
            .collect();
        assert_eq!(here, expected);
    }

    #[test]
    fn every_constant_of_the_registry_is_here() {
        let here: BTreeSet<_> = CONSTANTS.iter().map(|(name, _)| *name).collect();
        let families = [FamilyConstants::V4, FamilyConstants::V6];
        let families = families.iter().flat_map(FamilyConstants::all);
        let all = families.chain(registry::CONSTANTS);
        assert_eq!(here, all.map(|constant| constant.name).collect());
    }
}
