//! A Resync: the tables are read back and differ from what is wanted nowhere afterwards.

use std::collections::HashSet;

use shunt_common::{Cell, FrontendKey};
use tracing::{error, warn};

use super::{
    Publisher, Retired,
    adoption::{Adoption, adopt},
    clear, next_generation,
};
use crate::{
    datapath::{TableError, Tables, family::FromIp, group::GroupKey},
    renderer::Frontend,
};

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// Makes `wanted` the frontends of the tables, whatever was in them: of an earlier publisher,
    /// or changed by someone else. What is right already is not touched.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, have no room or refuse a new frontend. What packets see is
    /// as it was then.
    pub fn resync(&mut self, wanted: &[(FrontendKey<F>, &Frontend)]) -> Result<(), TableError> {
        if self.has_retired() {
            self.reclaim()?;
        } else {
            // For packets that saw what an agent replaced that was killed just now.
            self.tables.wait_for_readers()?;
        }
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
        let before = self.exchange(ledger);
        if let Err(error) = self.install(wanted) {
            if let Err(error) = self.tables.wait_for_readers() {
                warn!(%error, "table space may be reused early");
            }
            // What was taken was not taken from the state that is gone back to.
            self.retired = Retired::default();
            self.exchange(before);
            return Err(error);
        }
        self.retire_foreign_source_ranges(wanted);
        self.retire(foreign, unclaimed);
        if let Err(error) = self.reclaim() {
            warn!(%error, "replaced table space stays in use");
        }
        Ok(())
    }

    /// Steps 4 and 5 for what was found in the tables and is not wanted.
    fn retire(&mut self, foreign: Vec<(FrontendKey<F>, u32)>, unclaimed: Retired) {
        let Retired {
            slices,
            backends,
            frontends,
        } = unclaimed;
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
    }
}
