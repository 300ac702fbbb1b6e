//! What is live: the frontends that packets find in the kernel's tables, whoever put them there.
//!
//! Nothing that is read is believed. Where an index lies outside its table, the frontend is shown
//! with the backends that can be read, and equals nothing that anyone wanted.

use std::{collections::HashMap, fmt, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use shunt_common::{Cell, FrontendKey as TableKey, SCTP, SourceRange, TCP, UDP, V4, fill_slots};

use super::{
    Datapath, TableError, Tables,
    family::{FromIp, table_key},
    group::Slice,
    publisher::TableUse,
};
use crate::{
    api::{Protocol, Scopes},
    renderer::{Backend, Frontend, FrontendKey},
};

/// The key of an entry of a frontend table. Ordered as [`FrontendKey`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveKey {
    /// The frontend's address.
    pub address: IpAddr,
    /// Its port in host byte order; 0 if someone else wrote that.
    pub port: u16,
    /// Its protocol, IANA number; any if someone else wrote it.
    pub protocol: u8,
}

impl LiveKey {
    /// The frontend with this key, if there can be one.
    pub fn frontend(&self) -> Option<FrontendKey> {
        let Self {
            address,
            port,
            protocol,
        } = *self;
        Some(FrontendKey {
            address,
            port,
            protocol: protocol_of(protocol)?,
        })
    }

    /// What keys are sorted by.
    pub(crate) fn order(&self) -> (IpAddr, u16, Option<Protocol>, u8) {
        (
            self.address,
            self.port,
            protocol_of(self.protocol),
            self.protocol,
        )
    }
}

impl From<FrontendKey> for LiveKey {
    fn from(key: FrontendKey) -> Self {
        let FrontendKey {
            address,
            port,
            protocol,
        } = key;
        Self {
            address,
            port,
            protocol: match protocol {
                Protocol::Tcp => TCP,
                Protocol::Udp => UDP,
                Protocol::Sctp => SCTP,
            },
        }
    }
}

impl fmt::Display for LiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frontend() {
            Some(key) => key.fmt(f),
            None => {
                let address = std::net::SocketAddr::new(self.address, self.port);
                write!(f, "{address}/{}", self.protocol)
            }
        }
    }
}

fn protocol_of(number: u8) -> Option<Protocol> {
    match number {
        TCP => Some(Protocol::Tcp),
        UDP => Some(Protocol::Udp),
        SCTP => Some(Protocol::Sctp),
        _ => None,
    }
}

/// A frontend in the kernel's tables.
#[derive(Debug, Clone)]
pub struct LiveFrontend {
    /// What clients connect to.
    pub key: LiveKey,
    /// Where connections go, in the order of the slots. Frontends of one slice share the list.
    pub backends: Arc<[Backend]>,
    /// Session affinity in seconds since the last connection; 0 is off.
    pub affinity_timeout: u32,
    /// Who may use it, sorted; empty: everyone.
    pub sources: Vec<IpNet>,
    /// What clients on this node have in its place.
    pub this_node: Option<Box<LiveFrontend>>,
    cell: Cell,
    scope: u8,
    /// Everything that it refers to exists, and its slots select by its backends' weights.
    sound: bool,
}

impl LiveFrontend {
    /// Whether only clients on this node are served.
    pub const fn is_for_this_node(&self) -> bool {
        self.cell.has(Cell::THIS_NODE_ONLY)
    }

    /// Whether packets see exactly `wanted`.
    pub fn is(&self, wanted: &Frontend) -> bool {
        let slice = Slice {
            set: Arc::clone(&wanted.backends),
            offset: self.cell.offset(),
            count: self.cell.count(),
        };
        let flags = self.cell.flags() & (Cell::RANGES | Cell::SECOND_RANGES);
        let here = match (&self.this_node, &wanted.this_node) {
            (Some(live), Some(wanted)) => live.is(wanted),
            (None, None) => true,
            _ => false,
        };
        self.sound
            && here
            && *self.backends == *wanted.backends.backends
            && self.affinity_timeout == wanted.backends.affinity_timeout
            && *self.sources == *wanted.sources
            && slice.cell(wanted).with(flags) == self.cell
    }
}

/// The frontends of one family's tables, sorted by address, port and protocol.
///
/// # Errors
///
/// If the frontend table cannot be read.
pub fn read<F: FromIp, T: Tables<F>>(tables: &T) -> Result<Vec<LiveFrontend>, TableError> {
    let capacity = tables.capacity();
    let mut slices = HashMap::new();
    let mut sources = read_sources(tables)?;
    let mut frontends: Vec<LiveFrontend> = tables
        .frontends()?
        .into_iter()
        .map(|(key, index)| {
            let known = index < capacity.frontends;
            let cell = if known {
                tables.cell(index)
            } else {
                Cell::default()
            };
            let slice = (cell.offset(), cell.count());
            let LiveSlice {
                backends,
                affinity_timeout,
                sound,
            } = slices
                .entry(slice)
                .or_insert_with(|| read_slice(tables, slice));
            LiveFrontend {
                key: LiveKey {
                    address: F::ip(key.address),
                    port: u16::from_be(key.port),
                    protocol: key.protocol,
                },
                backends: Arc::clone(backends),
                affinity_timeout: *affinity_timeout,
                sources: if cell.has(Cell::RANGES) {
                    let list = u8::from(cell.has(Cell::SECOND_RANGES));
                    sources.remove(&key.scoped(list)).unwrap_or_default()
                } else {
                    Vec::new()
                },
                this_node: None,
                cell,
                scope: key.scope,
                sound: known && *sound,
            }
        })
        .collect();
    frontends.sort_by_key(|frontend| (frontend.key.order(), frontend.scope));
    frontends.dedup_by(|next, frontend| {
        let belongs = next.scope > 0 && frontend.scope == 0 && next.key == frontend.key;
        if belongs {
            frontend.this_node = Some(Box::new(next.clone()));
        }
        belongs
    });
    Ok(frontends)
}

/// The source ranges by frontend, the scope telling which list it is, each list sorted. What is
/// no range is left out.
fn read_sources<F: FromIp, T: Tables<F>>(
    tables: &T,
) -> Result<HashMap<TableKey<F>, Vec<IpNet>>, TableError> {
    let mut sources: HashMap<_, Vec<IpNet>> = HashMap::new();
    for (bits, range) in tables.source_ranges()? {
        let length = bits.checked_sub(SourceRange::<F>::FRONTEND_BITS);
        let length = length.and_then(|length| u8::try_from(length).ok());
        let network = length.map(|length| IpNet::new(F::ip(range.client), length));
        if let Some(Ok(network)) = network {
            sources.entry(range.frontend).or_default().push(network);
        }
    }
    for list in sources.values_mut() {
        list.sort();
    }
    Ok(sources)
}

/// What the slots of a slice say.
struct LiveSlice {
    backends: Arc<[Backend]>,
    affinity_timeout: u32,
    /// All of them exist, and the slots select by their weights.
    sound: bool,
}

/// Reads a slice (offset, count).
fn read_slice<F: FromIp, T: Tables<F>>(tables: &T, (offset, count): (u32, u32)) -> LiveSlice {
    let capacity = tables.capacity();
    // An offset is below 2^28 and a count below 2^20.
    let end = (offset + count).min(capacity.slots);
    let slots: Vec<_> = (offset..end).map(|index| tables.slot(index)).collect();
    let known = slots
        .iter()
        .map(|slot| slot.backend)
        .filter(|index| *index < capacity.backends);
    let indexes: Vec<u32> = known.collect();
    let entries: Vec<_> = indexes.iter().map(|index| tables.backend(*index)).collect();
    let weights: Vec<u32> = entries.iter().map(|entry| entry.weight).collect();
    let affinity_timeout = slots.first().map_or(0, |slot| slot.affinity);
    let sound = indexes.len() == count as usize
        && fill_slots(&indexes, &weights, affinity_timeout) == slots;
    let backends = entries.iter().map(|entry| Backend {
        ip: F::ip(entry.address),
        port: u16::from_be(entry.port),
        weight: entry.weight,
        local: entry.flags & shunt_common::Backend::<F>::LOCAL != 0,
        scopes: Scopes {
            cluster: entry.flags & shunt_common::Backend::<F>::IN_CLUSTER_SET != 0,
            local: entry.flags & shunt_common::Backend::<F>::IN_LOCAL_SET != 0,
        },
    });
    LiveSlice {
        backends: backends.collect(),
        affinity_timeout,
        sound,
    }
}

impl Datapath {
    /// The frontends that packets find, sorted by address, port and protocol.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read a table.
    pub fn live(&self) -> Result<Vec<LiveFrontend>, TableError> {
        read(self.v4().tables())
    }

    /// Whether the tables can hold a frontend with this key.
    pub fn translates(&self, key: &FrontendKey) -> bool {
        table_key::<V4>(key).is_some()
    }

    /// How full the tables of frontends, slots and backends are.
    pub fn table_use(&self) -> [TableUse; 3] {
        self.v4()
            .table_use(["frontends_v4", "slots_v4", "backends_v4"])
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use shunt_common::Slot;

    use super::*;
    use crate::{
        api::{ServiceId, TrafficPolicy},
        datapath::{Capacity, MemoryTables, Publisher},
        renderer::{BackendSet, Clients, FrontendKind, Refusal},
    };

    fn frontend() -> Frontend {
        let backend = |last: u8, weight| Backend {
            ip: Ipv4Addr::new(10, 1, 1, last).into(),
            port: 8080,
            weight,
            local: last == 3,
            scopes: Scopes {
                cluster: true,
                local: last == 3,
            },
        };
        Frontend {
            kind: FrontendKind::NodePort,
            policy: TrafficPolicy::Cluster,
            clients: Clients::ThisNode,
            refusal: Refusal::Drop,
            this_node: None,
            sources: Arc::default(),
            backends: Arc::new(BackendSet {
                affinity_timeout: 0,
                service: Arc::new(ServiceId::new("default", "web")),
                port: "http".into(),
                backends: vec![backend(3, 1), backend(4, 3)],
            }),
        }
    }

    /// Tables with that one frontend at 192.168.16.10:30080.
    fn published() -> MemoryTables<V4> {
        let mut publisher = Publisher::new(MemoryTables::new(Capacity {
            frontends: 4,
            slots: 8,
            backends: 8,
        }));
        let frontend = frontend();
        let address = u32::from_ne_bytes([192, 168, 16, 10]);
        let key = TableKey::new(address, 30080u16.to_be(), TCP);
        publisher.publish(&[(key, &frontend)], &[]).unwrap();
        publisher.tables().clone()
    }

    #[test]
    fn what_was_published_is_read_back() {
        let found = read(&published()).unwrap();
        let [found] = found.as_slice() else {
            panic!("one frontend, not {found:?}");
        };
        assert_eq!(found.key.to_string(), "192.168.16.10:30080/TCP");
        assert!(found.is_for_this_node());
        assert!(found.is(&frontend()));
        let mut other = frontend();
        other.clients = Clients::Everyone;
        assert!(!found.is(&other));
    }

    #[test]
    fn whatever_others_write_is_read_and_is_not_what_was_wanted() {
        type Damage = fn(&mut MemoryTables<V4>);
        let damages: [(&str, Damage); 5] = [
            ("another weight", |tables| {
                tables
                    .backends
                    .iter_mut()
                    .for_each(|entry| entry.weight = 7);
            }),
            ("another share", |tables| {
                tables.slots.iter_mut().for_each(|slot| slot.threshold ^= 1);
            }),
            ("a backend that does not exist", |tables| {
                tables.slots.fill(Slot {
                    backend: u32::MAX,
                    ..Slot::default()
                });
            }),
            ("a slice outside the table", |tables| {
                tables.cells.fill(Cell::from_word(u64::MAX));
            }),
            ("an index outside the table", |tables| {
                tables
                    .frontends
                    .values_mut()
                    .for_each(|index| *index = u32::MAX);
            }),
        ];
        for (what, damage) in damages {
            let mut tables = published();
            damage(&mut tables);
            let found = read(&tables).unwrap();
            assert_eq!(found.len(), 1, "{what}");
            assert!(!found[0].is(&frontend()), "{what}");
        }
    }

    #[test]
    fn an_entry_of_no_known_protocol_is_listed() {
        let mut tables = published();
        tables
            .frontends
            .insert(TableKey::new(u32::from_ne_bytes([9; 4]), 0x0909, 9), 0);
        let found = read(&tables).unwrap();
        assert_eq!(found[0].key.to_string(), "9.9.9.9:2313/9");
        assert_eq!(found[0].key.frontend(), None);
        assert_eq!(found.len(), 2);
    }
}
