//! The loaded object: its programs, verified by the kernel when they are first needed.

use aya::{
    Ebpf,
    programs::{CgroupSockAddr, Program, ProgramError, ProgramType, SchedClassifier, Xdp},
};

use crate::{
    error::DatapathError,
    object::{
        programs::{EGRESS, INGRESS, XDP},
        requirements,
    },
    pins::directory::Pins,
};

/// The object in the kernel, and where its programs are pinned.
#[derive(Debug)]
pub(crate) struct Loaded {
    ebpf: Ebpf,
    pins: Option<Pins>,
}

impl Loaded {
    /// Loads the programs that every node has.
    ///
    /// # Errors
    ///
    /// If the kernel does not take them.
    pub(crate) fn new(ebpf: Ebpf, pins: Option<Pins>) -> Result<Self, DatapathError> {
        let mut loaded = Self { ebpf, pins };
        for name in [EGRESS, INGRESS] {
            loaded.program(name)?;
        }
        Ok(loaded)
    }

    /// The program of this name, loaded and, if things are pinned, pinned. Those for interfaces
    /// without a link header are loaded when the first of these is attached: few nodes have one,
    /// and the kernel takes half a second to verify them.
    ///
    /// # Errors
    ///
    /// If there is none, or the kernel does not take it.
    pub(crate) fn program(
        &mut self,
        name: &'static str,
    ) -> Result<&mut SchedClassifier, DatapathError> {
        let program: &mut SchedClassifier = typed(&mut self.ebpf, name)?;
        if program.fd().is_err() {
            program.load().map_err(|source| {
                requirements::explain(name, ProgramType::SchedClassifier, source)
            })?;
            self.pin(name)?;
        }
        typed(&mut self.ebpf, name)
    }

    /// The program of this name for a hook of a cgroup, loaded and, if things are pinned, pinned.
    ///
    /// # Errors
    ///
    /// If there is none, or the kernel does not take it.
    pub(crate) fn socket_program(
        &mut self,
        name: &'static str,
    ) -> Result<&mut CgroupSockAddr, DatapathError> {
        let program: &mut CgroupSockAddr = typed(&mut self.ebpf, name)?;
        if program.fd().is_err() {
            program.load().map_err(|source| {
                requirements::explain(name, ProgramType::CgroupSockAddr, source)
            })?;
            self.pin(name)?;
        }
        typed(&mut self.ebpf, name)
    }

    /// The XDP program, loaded and, if things are pinned, pinned.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it.
    pub(crate) fn xdp_program(&mut self) -> Result<&mut Xdp, DatapathError> {
        let program: &mut Xdp = typed(&mut self.ebpf, XDP)?;
        if program.fd().is_err() {
            program
                .load()
                .map_err(|source| requirements::explain(XDP, ProgramType::Xdp, source))?;
            self.pin(XDP)?;
        }
        typed(&mut self.ebpf, XDP)
    }

    fn pin(&mut self, name: &'static str) -> Result<(), DatapathError> {
        if let Some(pins) = &self.pins {
            pins.pin_program(name, any(&mut self.ebpf, name)?)?;
        }
        Ok(())
    }

    /// Where things are pinned, if they are.
    pub(crate) const fn pins(&self) -> Option<&Pins> {
        self.pins.as_ref()
    }

    /// The object's tables, and the programs' log.
    pub(crate) const fn ebpf_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }
}

fn any<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Program, DatapathError> {
    ebpf.program_mut(name).ok_or(DatapathError::Missing(name))
}

fn typed<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, DatapathError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    any(ebpf, name)?
        .try_into()
        .map_err(|source| DatapathError::Program { name, source })
}
