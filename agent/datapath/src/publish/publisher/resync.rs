//! A Resync: the tables are read back and differ from what is wanted nowhere afterwards.

use std::collections::HashSet;

use shunt_common::{Cell, Family, FrontendKey};
use tracing::error;

use shunt_model::Frontend;

use crate::{
    error::TableError,
    maps::{family::FromIp, tables::Tables},
    publish::{
        group::GroupKey,
        publisher::{
            Publisher, Retired,
            adoption::{Adoption, adopt},
            clear, has_part,
            ledger::Ledger,
            next_generation,
        },
    },
};

/// Contents of the tables that a Resync has found, beside what is wanted.
#[derive(Debug)]
pub(super) struct Findings<F: Family> {
    /// State to go back to if the Resync fails.
    pub(super) before: Ledger<F>,
    /// The frontends that are wanted.
    wanted: HashSet<FrontendKey<F>>,
    /// Entries of the frontend table that are not, with their indexes.
    foreign: Vec<(FrontendKey<F>, u32)>,
    /// Entries that nothing wanted uses as they are.
    unclaimed: Retired,
}

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// Reads the tables and goes on from what of `wanted` is in them.
    pub(super) fn sort_out(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
    ) -> Result<Findings<F>, TableError> {
        self.read_source_ranges()?;
        let Adoption {
            ledger,
            foreign,
            unclaimed,
            leftovers,
        } = adopt(self, wanted)?;
        for index in leftovers {
            clear(&mut self.tables, index);
        }
        Ok(Findings {
            before: self.exchange(ledger),
            wanted: wanted.iter().map(|(key, _)| *key).collect(),
            foreign,
            unclaimed,
        })
    }

    /// Steps 4 and 5 for what was found in the tables and is not wanted.
    pub(super) fn retire_findings(&mut self, findings: Findings<F>) {
        let Findings {
            before: _,
            wanted,
            foreign,
            unclaimed:
                Retired {
                    slices,
                    backends,
                    frontends,
                },
        } = findings;
        self.retire_foreign_source_ranges(&wanted);
        let frontends: HashSet<u32> = frontends.into_iter().collect();
        let mut stuck = HashSet::new();
        for (key, index) in foreign {
            if let Err(error) = self.tables.remove_frontend(key) {
                error!(?key, %error, "a foreign frontend stays in the table, without backends");
                if frontends.contains(&index) {
                    self.tables.write_cell(index, Cell::default());
                }
                stuck.insert(index);
            }
        }
        for index in &backends {
            next_generation(&mut self.tables, *index);
        }
        self.retired.slices.extend(slices);
        self.retired.backends.extend(backends);
        self.retired.frontends.extend(&frontends - &stuck);

        let groups: Vec<GroupKey> = self.groups.keys().cloned().collect();
        for key in groups {
            self.retire_unused(key);
        }
        let groups = &self.groups;
        self.services.settle(|key| has_part(groups, key));
    }
}
