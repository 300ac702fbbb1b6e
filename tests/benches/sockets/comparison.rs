//! Cgroups with programs of the feeder's object, which do nothing or very little.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
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
        let object = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut programs = Ebpf::load(&object).context("cannot load the feeder")?;
        let cgroup = Cgroup::new()?;
        let directory = fs::File::open(cgroup.path()).context("cannot open a cgroup")?;
        for name in [format!("{name}_connect4"), format!("{name}_connect6")] {
            let program = programs.program_mut(&name);
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
