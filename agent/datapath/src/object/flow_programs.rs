//! The same programs from another object, over the same tables, but that these report connections and packets.

use std::{fmt, io, path::PathBuf, sync::Arc};

use aya::{Ebpf, EbpfLoader, util::nr_cpus};
use shunt_common::{FlowControl, registry};

use crate::{
    error::DatapathError,
    maps::flow_ring::FlowReader,
    object::{
        all_tables::AllTables, copies::TableCopies, programs::FLOW_OBJECT, requirements,
        verified::verify,
    },
    pins::handed_over::HandedOver,
};

/// Size of the ring in bytes: a power of two. At 100,000 records a second, which is a tenth of what programs can
/// write, it is full after a third of a second without a read.
const RING: u32 = 1 << 22;

/// The tables that these programs do not share with the others.
const OWN: [&str; 3] = [
    registry::FLOW_EVENTS.name,
    registry::FLOW_CONTROL.name,
    registry::IPV6_PROGRAMS.name,
];

/// Loader of these programs, to run beside everything else that is done.
#[derive(Debug)]
pub struct FlowLoader {
    /// The tables of the other programs.
    pub(crate) tables: Arc<AllTables>,
    /// Directory of their pins while the programs are loaded; `None`: there is no place for it.
    pub(crate) folder: Option<PathBuf>,
    /// These have the constants of the other programs.
    pub(crate) copies: Arc<TableCopies>,
    /// Names of the programs that are wanted.
    pub(crate) programs: Vec<&'static str>,
}

/// The programs, loaded and attached to nothing.
pub struct FlowPrograms(pub(crate) Ebpf);

impl fmt::Debug for FlowPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlowPrograms").finish_non_exhaustive()
    }
}

impl FlowLoader {
    /// Has the tables pinned at this path of a bpf file system while the programs are loaded, if the agent has no pin
    /// directory. Nothing may be there.
    #[must_use]
    pub fn or_at(self, path: PathBuf) -> Self {
        Self {
            folder: self.folder.or(Some(path)),
            ..self
        }
    }

    /// Loads them: the kernel verifies them anew, which takes a second. Returns with them the reader of their reports.
    ///
    /// # Errors
    ///
    /// If the kernel does not take them, or there is no pin directory.
    pub fn load(self) -> Result<(FlowPrograms, FlowReader), DatapathError> {
        let Self {
            tables,
            folder,
            copies,
            programs,
        } = self;
        let failed = |source| DatapathError::FlowTables { source };
        // Until all is loaded.
        let folder = HandedOver::at(folder.ok_or(DatapathError::FlowsUnpinned)?).map_err(failed)?;
        let mut loader = EbpfLoader::new();
        for name in tables.names().filter(|name| !OWN.contains(name)) {
            let path = folder.path(name);
            tables.pin(name, &path).map_err(failed)?;
            loader.map_pin_path(name, path);
        }
        loader.map_max_entries(registry::FLOW_EVENTS.name, RING);
        let processors = nr_cpus().map_err(|(_, source)| failed(source))?;
        let processors =
            u32::try_from(processors).map_err(|error| failed(io::Error::other(error)))?;
        loader.map_max_entries(
            registry::FLOW_CONTROL.name,
            FlowControl::PROCESSORS + processors,
        );
        for (name, value) in copies.constants() {
            let value: &[u8] = value;
            loader.override_global(name, value, true);
        }
        let mut ebpf = loader.load(&FLOW_OBJECT.bytes()?)?;
        for (_, outcome) in verify(&mut ebpf, &programs, requirements::explain_flows) {
            outcome?;
        }
        let reader = FlowReader::take(&mut ebpf)?;
        Ok((FlowPrograms(ebpf), reader))
    }
}
