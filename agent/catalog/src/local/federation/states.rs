//! The records of all datacenters, and their changes: plain values, without any waiting.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::local::federation::record::{Gateway, Record};

/// The records of all datacenters. In the primary they are the truth; in a secondary, a copy of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct States {
    /// The number of the last change; never backwards while the file is there. Without a change readers see 1, so the
    /// first one is 2.
    pub index: u64,
    /// By datacenter.
    pub records: BTreeMap<String, Record>,
    /// The primary's index that was last read, in a secondary.
    pub(crate) seen: u64,
}

/// Records that a primary shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remote {
    /// Its index.
    pub(super) index: u64,
    /// All of its records.
    pub(super) records: Vec<Record>,
}

impl States {
    /// The gateways of a datacenter.
    pub(super) fn gateways(&self, datacenter: &str) -> &[Gateway] {
        let record = self.records.get(datacenter);
        record.map_or(&[], |record| &record.mesh_gateways)
    }

    /// The number of the next change.
    fn next_index(&self) -> u64 {
        self.index.max(1) + 1
    }

    /// Sets the gateways of a datacenter. Returns whether it had others: the same again is no
    /// change. Only the primary writes so.
    pub(super) fn put(&mut self, datacenter: &str, gateways: Vec<Gateway>, now: String) -> bool {
        let before = self.records.get(datacenter);
        if before.is_some_and(|record| record.mesh_gateways == gateways) {
            return false;
        }
        let created = before.map(|record| record.create_index);
        let index = self.next_index();
        self.index = index;
        let record = Record {
            datacenter: datacenter.to_owned(),
            mesh_gateways: gateways,
            updated_at: now,
            primary_modify_index: index,
            create_index: created.unwrap_or(index),
            modify_index: index,
        };
        self.records.insert(datacenter.to_owned(), record);
        true
    }

    /// Becomes a copy of the records of the primary. Returns whether a record is another, new or gone.
    ///
    /// A record that has not changed there since the last look is not compared; if the primary's index
    /// went back, it is another primary than before, and all of them are.
    pub(super) fn follow(&mut self, remote: Remote) -> bool {
        let Remote { index, records } = remote;
        let seen = if index < self.seen { 0 } else { self.seen };
        let next = self.next_index();
        let is_there = |name: &String| records.iter().any(|record| record.datacenter == *name);
        let count = self.records.len();
        self.records.retain(|name, _| is_there(name));
        let mut is_new = self.records.len() != count;
        for record in records {
            let known = self.records.get(&record.datacenter);
            if known.is_some() && record.modify_index <= seen {
                continue;
            }
            if known.is_some_and(|known| known.mesh_gateways == record.mesh_gateways) {
                continue;
            }
            let created = known.map(|known| known.create_index);
            let copy = Record {
                primary_modify_index: record.modify_index,
                create_index: created.unwrap_or(next),
                modify_index: next,
                ..record
            };
            self.records.insert(copy.datacenter.clone(), copy);
            is_new = true;
        }
        if is_new {
            self.index = next;
        }
        self.seen = index;
        is_new
    }
}
