//! Programs of another object, which stand for those of ours over the same tables.

use std::{fmt, path::PathBuf};

use aya::{Ebpf, EbpfLoader};

use crate::{
    error::DatapathError,
    object::{
        all_tables::AllTables, copies::TableCopies, embedded::Embedded, requirements,
        verified::verify,
    },
    pins::handed_over::HandedOver,
};

/// The programs, loaded and attached to nothing.
pub struct StandIn(pub(crate) Ebpf);

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StandIn").finish_non_exhaustive()
    }
}

/// The properties of our object that the other one is to have.
#[derive(Debug)]
pub(crate) struct Original<'a> {
    /// Its tables.
    pub(crate) tables: &'a AllTables,
    /// Its constants.
    pub(crate) copies: &'a TableCopies,
    /// Directory of the tables' pins while the programs are loaded.
    pub(crate) folder: PathBuf,
    /// Names of the programs that are wanted.
    pub(crate) programs: &'a [&'static str],
}

impl Original<'_> {
    /// Loads the programs of `object` with these tables, but for its `own`, and with what `adapt` sets besides. The
    /// kernel verifies them, which takes a second.
    ///
    /// # Errors
    ///
    /// If the kernel does not take them.
    pub(crate) fn load(
        &self,
        object: &Embedded,
        own: &[&str],
        adapt: impl FnOnce(&mut EbpfLoader<'_>) -> Result<(), DatapathError>,
    ) -> Result<StandIn, DatapathError> {
        let Self {
            tables,
            copies,
            folder,
            programs,
        } = self;
        let failed = |source| DatapathError::HandedTables { source };
        // Until all is loaded.
        let folder = HandedOver::at(folder.clone()).map_err(failed)?;
        let mut loader = EbpfLoader::new();
        for name in tables.names().filter(|name| !own.contains(name)) {
            let path = folder.path(name);
            tables.pin(name, &path).map_err(failed)?;
            loader.map_pin_path(name, path);
        }
        for (name, value) in copies.constants() {
            let value: &[u8] = value;
            loader.override_global(name, value, true);
        }
        adapt(&mut loader)?;
        let mut ebpf = loader.load(&object.bytes()?)?;
        for (_, outcome) in verify(&mut ebpf, programs, requirements::explain_flows) {
            outcome?;
        }
        Ok(StandIn(ebpf))
    }
}
