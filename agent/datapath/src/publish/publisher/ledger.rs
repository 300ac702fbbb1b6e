//! The owners of the tables' entries.

use std::{collections::HashMap, mem, sync::Arc};

use shunt_common::{Family, FrontendKey};

use crate::publish::{
    allocator::{IndexAllocator, RangeAllocator},
    group::{Group, GroupKey},
    maglev::{MaglevTable, Recipe},
    owners::Owners,
    publisher::{Published, Publisher},
};

/// A publisher's knowledge of its tables, but for what is retired.
#[derive(Debug)]
pub(super) struct Ledger<F: Family> {
    pub frontends: HashMap<FrontendKey<F>, Published>,
    pub groups: HashMap<GroupKey, Group<F::Address>>,
    pub owners: Owners,
    pub maglev: HashMap<Recipe, Arc<MaglevTable>>,
    pub indexes: IndexAllocator,
    pub slots: RangeAllocator,
    pub backends: IndexAllocator,
}

impl<F: Family, T> Publisher<F, T> {
    /// Goes on from `ledger`; returns what it went from.
    pub(super) fn exchange(&mut self, ledger: Ledger<F>) -> Ledger<F> {
        let Ledger {
            frontends,
            groups,
            owners,
            maglev,
            indexes,
            slots,
            backends,
        } = ledger;
        Ledger {
            frontends: mem::replace(&mut self.frontends, frontends),
            groups: mem::replace(&mut self.groups, groups),
            owners: mem::replace(&mut self.owners, owners),
            maglev: mem::replace(&mut self.maglev, maglev),
            indexes: mem::replace(&mut self.indexes, indexes),
            slots: mem::replace(&mut self.slots, slots),
            backends: mem::replace(&mut self.backends, backends),
        }
    }
}
