//! Cgroups with programs of the feeder's object, which do nothing or very little.

use std::{fs, net::SocketAddrV4, path::Path};

use anyhow::{Context as _, Result};
use aya::{
    Ebpf, EbpfLoader,
    programs::{CgroupAttachMode, CgroupSockAddr},
};
use shunt_tests::Cgroup;

/// The cgroup. Dropping it detaches the programs and removes it.
pub(super) struct Comparison {
    _programs: Ebpf,
    cgroup: Cgroup,
}

impl Comparison {
    /// One with the `name`d programs of the object at `path` at `connect`, of both families.
    ///
    /// # Errors
    ///
    /// If the object cannot be read, or the kernel does not take it.
    pub(super) fn new(path: &Path, name: &str) -> Result<Self> {
        let names = [format!("{name}_connect4"), format!("{name}_connect6")];
        Self::load(path, &mut EbpfLoader::new(), &names)
    }

    /// One with the program that remembers a service for each IPv4 socket, and puts this backend in its
    /// place.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub(super) fn stored(path: &Path, backend: SocketAddrV4) -> Result<Self> {
        let address = u32::from_ne_bytes(backend.ip().octets());
        let backend = [address, u32::from(backend.port().to_be())];
        let mut loader = EbpfLoader::new();
        loader.override_global("STORED_BACKEND", &backend, true);
        Self::load(path, &mut loader, &["stored_connect4".to_owned()])
    }

    fn load(path: &Path, loader: &mut EbpfLoader<'_>, names: &[String]) -> Result<Self> {
        let object = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut programs = loader.load(&object).context("cannot load the feeder")?;
        let cgroup = Cgroup::new()?;
        let directory = fs::File::open(cgroup.path()).context("cannot open a cgroup")?;
        for name in names {
            let program = programs.program_mut(name);
            let program = program.with_context(|| format!("the feeder has no {name}"))?;
            let program: &mut CgroupSockAddr = program.try_into()?;
            program.load()?;
            program.attach(&directory, CgroupAttachMode::Single)?;
        }
        Ok(Self {
            _programs: programs,
            cgroup,
        })
    }

    pub(super) const fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }
}
