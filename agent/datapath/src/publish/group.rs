//! A service port in the tables: its slices of slots and the backends that these name.

use std::{collections::BTreeMap, sync::Arc};

use shunt_common::{Backend, Cell};

use shunt_model::{
    BackendSet, Clients, Forwarding, Frontend, FrontendKind, Masquerade, PortPart, Refusal,
    ServiceId, TrafficPolicy,
};

use crate::{maps::family::FromIp, publish::maglev::MaglevTable};

/// Identity of a service port.
///
/// Backends belong to a service port: its frontends share them, and a connection that remembers
/// one is notified when it leaves this service, even if it stays in another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    service: Arc<ServiceId>,
    port: Arc<str>,
    part: PortPart,
}

impl GroupKey {
    /// A number that another service port hardly has.
    pub(crate) fn fingerprint(&self) -> u32 {
        self.identity() as u32
    }

    /// A longer one, which is not 0. FNV-1a, so that every agent makes the same one.
    pub(crate) fn identity(&self) -> u64 {
        let Self { service, port, .. } = self;
        let hash = format!("{service}:{port}")
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        hash.max(1)
    }

    /// The service.
    pub(crate) const fn service(&self) -> &Arc<ServiceId> {
        &self.service
    }

    /// The name of its port.
    pub(crate) const fn port(&self) -> &Arc<str> {
        &self.port
    }

    /// The service port that owns `set`.
    pub(crate) fn of(set: &BackendSet) -> Self {
        Self {
            service: Arc::clone(&set.service),
            port: Arc::clone(&set.port),
            part: set.part,
        }
    }

    /// The parts that the service port can have.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Self> {
        PortPart::ALL.into_iter().map(|part| Self {
            part,
            ..self.clone()
        })
    }

    /// The service port with all its parts, as it is counted.
    pub(crate) fn whole(&self) -> Self {
        Self {
            part: PortPart::Main,
            ..self.clone()
        }
    }
}

/// Slots in the table that select from a set.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Set that they select from; slot `i` names backend `i`, and one behind them the share that is refused.
    pub set: Arc<BackendSet>,
    /// Offset of the first one.
    pub offset: u32,
    /// Number of slots.
    pub count: u32,
    /// The Maglev table by which they are selected, which the slot behind them names.
    pub table: Option<Arc<MaglevTable>>,
}

/// Place of the slots of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Extent {
    pub offset: u32,
    pub count: u32,
    /// True if the slot behind them is theirs, too.
    pub has_table: bool,
}

impl Extent {
    /// Returns the place that a cell names.
    pub(crate) const fn of(cell: Cell) -> Self {
        Self {
            offset: cell.offset(),
            count: cell.count(),
            has_table: cell.has(Cell::MAGLEV),
        }
    }

    /// All of them: (offset, count).
    pub(crate) const fn range(self) -> (u32, u32) {
        (self.offset, self.count + self.has_table as u32)
    }
}

impl Slice {
    /// Returns the place of its slots.
    pub(crate) const fn extent(&self) -> Extent {
        Extent {
            offset: self.offset,
            count: self.count,
            has_table: self.table.is_some(),
        }
    }

    /// The cell of `frontend`, which selects from this slice, but for its source ranges.
    pub(crate) fn cell(&self, frontend: &Frontend) -> Cell {
        let mut flags = 0;
        if !self.set.is_usable() {
            flags |= Cell::UNUSABLE;
        }
        if frontend.clients == Clients::ThisNode {
            flags |= Cell::THIS_NODE_ONLY;
        }
        if frontend.refusal == Refusal::Drop {
            flags |= Cell::DROPS;
        }
        if frontend.forwarding == Forwarding::Dsr {
            flags |= Cell::DSR;
        } else if frontend.this_node.is_some() {
            flags |= Cell::TWO_SETS;
        }
        if frontend.masquerade == Masquerade::On {
            flags |= Cell::MASQUERADE;
        }
        if frontend.with_draining.is_some() {
            flags |= Cell::DRAINING;
        }
        if frontend.policy == TrafficPolicy::Local {
            flags |= Cell::LOCAL_SET;
        }
        if frontend.kind == FrontendKind::NodePort {
            flags |= Cell::NODE_PORT;
        }
        if self.table.is_some() {
            flags |= Cell::MAGLEV;
        }
        if frontend.kind == FrontendKind::ClusterIp {
            flags |= Cell::CLUSTER_IP;
        }
        if self.set.refused() > 0 {
            flags |= Cell::REFUSES;
        }
        Cell::new(self.offset, self.count, flags)
    }
}

/// A backend's identity within its group, network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint<A> {
    address: A,
    port: u16,
}

impl<A> Endpoint<A> {
    /// The identity of `backend`, or `None` if it is of another family.
    pub(crate) fn of<F: FromIp<Address = A>>(backend: &shunt_model::Backend) -> Option<Self> {
        Some(Self {
            address: F::address(backend.ip)?,
            port: backend.port.to_be(),
        })
    }

    /// The identity of the table's entry `backend`.
    pub(crate) const fn in_table<F: FromIp<Address = A>>(backend: &Backend<F>) -> Self
    where
        A: Copy,
    {
        Self {
            address: backend.address,
            port: backend.port,
        }
    }
}

/// The table's entry of `backend`, which belongs to the service port with the number `owner`.
pub(crate) fn table_entry<F: FromIp>(
    owner: u32,
    backend: &shunt_model::Backend,
    generation: u16,
) -> Option<Backend<F>> {
    let flag = |set, flag| if set { flag } else { 0 };
    Some(Backend {
        address: F::address(backend.ip)?,
        weight: backend.weight,
        port: backend.port.to_be(),
        generation,
        flags: flag(backend.local, Backend::<F>::LOCAL)
            | flag(backend.scopes.cluster, Backend::<F>::IN_CLUSTER_SET)
            | flag(backend.scopes.local, Backend::<F>::IN_LOCAL_SET)
            | owner & Backend::<F>::OWNER,
    })
}

/// Entries of a service port in the tables.
#[derive(Debug)]
pub(crate) struct Group<A> {
    /// The number that stands beside each of its backends.
    pub owner: u32,
    /// The slices that its frontends use.
    pub slices: Vec<Arc<Slice>>,
    /// The indexes of the backends that the slices name.
    pub backends: BTreeMap<Endpoint<A>, u32>,
}

impl<A> Group<A> {
    /// A service port with this number, which has nothing yet.
    pub(crate) const fn new(owner: u32) -> Self {
        Self {
            owner,
            slices: Vec::new(),
            backends: BTreeMap::new(),
        }
    }

    /// The slice that selects from exactly `set`; one with a table before one for which there was no
    /// room.
    pub(crate) fn slice_of(&self, set: &Arc<BackendSet>) -> Option<&Arc<Slice>> {
        // A set is compared with others only if it is not among them itself: many frontends have it.
        self.slice_where(|other| Arc::ptr_eq(other, set))
            .or_else(|| self.slice_where(|other| other == set))
    }

    fn slice_where(&self, is_wanted: impl Fn(&Arc<BackendSet>) -> bool) -> Option<&Arc<Slice>> {
        let slices = self.slices.iter();
        slices
            .filter(|slice| is_wanted(&slice.set))
            .max_by_key(|slice| slice.table.is_some())
    }
}
