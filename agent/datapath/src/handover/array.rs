//! A table of another size, as it hands over.

use std::io;

use shunt_common::connections::{Key, Snapshot, Wide};

use crate::{
    handover::reconcile::Source,
    maps::{clock::Clock, connection_table::ConnectionTable, family::FromIp},
};

/// The table, and the clock by which parts of it are over.
#[derive(Debug)]
pub(crate) struct Resized<'a, F> {
    pub(crate) table: ConnectionTable<F>,
    pub(crate) clock: &'a Clock,
}

impl<F: FromIp + Wide> Source<F> for Resized<'_, F> {
    fn each(&self, see: &mut dyn FnMut(&Snapshot<F>) -> io::Result<()>) -> io::Result<()> {
        let now = self.clock.tick()?;
        self.table
            .remembered(0, u32::MAX, now)
            .try_for_each(|snapshot| see(&snapshot))
    }

    fn get(&self, forward: &Key<F>) -> io::Result<Option<(Snapshot<F>, bool)>> {
        let now = self.clock.tick()?;
        let table = self.table.table();
        let found = table.snapshot_of(forward);
        Ok(found.map(|(_, snapshot)| (snapshot, table.is_forgotten(&snapshot, now))))
    }
}
