//! The same programs from another object, over the same tables, but that these tell what becomes of connections and packets.

use std::{fmt, io, path::PathBuf, sync::Arc, thread};

use aya::{
    Ebpf, EbpfLoader,
    programs::{Program, ProgramError, ProgramType},
    util::nr_cpus,
};
use shunt_common::{FlowControl, registry};

use crate::{
    error::DatapathError,
    maps::flow_ring::FlowReader,
    object::{all_tables::AllTables, copies::TableCopies, programs::FLOW_OBJECT, requirements},
    pins::handed_over::HandedOver,
};

/// How many bytes the ring has: a power of two. At 100,000 records a second, which is a tenth of what programs can
/// write, it is full after a third of a second in which nobody reads.
const RING: u32 = 1 << 22;

/// What loads them, beside everything else that is done.
#[derive(Debug)]
pub struct FlowLoader {
    /// The tables of the other programs.
    pub(crate) tables: Arc<AllTables>,
    /// Where they are pinned while the programs are loaded; `None`: there is no place for it.
    pub(crate) folder: Option<PathBuf>,
    /// These have the constants of the other programs.
    pub(crate) copies: Arc<TableCopies>,
    /// Which programs are wanted.
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

    /// Loads them: the kernel verifies them anew, which takes a second. Gives with them what reads what they tell.
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
        for name in tables.names() {
            if name != registry::FLOW_EVENTS.name && name != registry::FLOW_CONTROL.name {
                let path = folder.path(name);
                tables.pin(name, &path).map_err(failed)?;
                loader.map_pin_path(name, path);
            }
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
        load_all(&mut ebpf, &programs)?;
        let reader = FlowReader::take(&mut ebpf)?;
        Ok((FlowPrograms(ebpf), reader))
    }
}

/// Loads the programs of these names, each by a thread of its own: the kernel verifies as many at once as there are
/// processors.
fn load_all(ebpf: &mut Ebpf, names: &[&'static str]) -> Result<(), DatapathError> {
    let found = ebpf.programs_mut().filter_map(|(found, program)| {
        let name = names.iter().find(|name| **name == found)?;
        Some((*name, program))
    });
    thread::scope(|scope| {
        let loading: Vec<_> = found
            .map(|(name, program)| (name, scope.spawn(move || load(name, program))))
            .collect();
        for (name, thread) in loading {
            thread.join().map_err(|_| DatapathError::Missing(name))??;
        }
        Ok(())
    })
}

fn load(name: &'static str, program: &mut Program) -> Result<(), DatapathError> {
    let (kind, loaded): (_, Result<(), ProgramError>) = match program {
        Program::SchedClassifier(program) => (ProgramType::SchedClassifier, program.load()),
        Program::Xdp(program) => (ProgramType::Xdp, program.load()),
        _ => return Err(DatapathError::Missing(name)),
    };
    loaded.map_err(|source| requirements::explain_flows(name, kind, source))
}
