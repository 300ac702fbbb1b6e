//! The loaded object: its programs, verified by the kernel when they are first needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    io, mem,
    os::fd::AsFd as _,
};

use aya::{
    Ebpf,
    programs::{CgroupSockAddr, Program, ProgramError, SchedClassifier, Xdp},
};

use crate::{
    error::DatapathError,
    object::{
        aside::{Aside, Batch, Readiness},
        flow_programs::FlowPrograms,
        ipv6_programs,
        programs::{
            EGRESS, EGRESS_L3, EGRESS_V6, EGRESS_V6_L3, INGRESS, INGRESS_L3, INGRESS_V6,
            INGRESS_V6_L3, XDP,
        },
        requirements,
        verified::verify,
    },
    pins::{directory::Pins, error::PinError, held::Repair},
    sys::crash::died_after,
};

/// The object in the kernel, and where its programs are pinned.
#[derive(Debug)]
pub(crate) struct Loaded {
    ebpf: Ebpf,
    /// The programs that run in place of those, over the same tables, while there is a watcher.
    telling: Option<FlowPrograms>,
    pins: Option<Pins>,
    /// The programs that are.
    pinned: BTreeSet<&'static str>,
    /// True if IPv6 is translated.
    has_ipv6: bool,
    /// The names of the pinned tables of its programs, by the number of their object.
    pinned_ipv6: BTreeMap<u64, String>,
    /// The verification in a thread; `None`: the caller of [`Self::program`] waits for it.
    aside: Option<Aside>,
    /// The number of the object that stands for this one, or would.
    replacement: u64,
}

/// The number of the object without replacement.
const OWN: u64 = 0;

impl Loaded {
    /// Takes an object of which no program is needed yet.
    pub(crate) const fn new(ebpf: Ebpf, pins: Option<Pins>, has_ipv6: bool) -> Self {
        Self {
            ebpf,
            telling: None,
            pins,
            pinned: BTreeSet::new(),
            has_ipv6,
            pinned_ipv6: BTreeMap::new(),
            aside: None,
            replacement: OWN,
        }
    }

    /// The programs that every node has, the dearest first.
    pub(crate) fn always(&self) -> &'static [&'static str] {
        self.together(INGRESS)
    }

    /// Loads programs by `verify`, and pins those that every node has. `None` if that was stopped: other agents
    /// may then use the pins.
    ///
    /// # Errors
    ///
    /// If the kernel does not take those that every node has.
    pub(crate) fn verified(
        self,
        verify: impl FnOnce(Ebpf) -> io::Result<Option<Ebpf>>,
    ) -> Result<Option<Self>, DatapathError> {
        let Self { ebpf, .. } = self;
        let Some(ebpf) = verify(ebpf).map_err(DatapathError::Threads)? else {
            return Ok(None);
        };
        let mut loaded = Self { ebpf, ..self };
        for name in [EGRESS, INGRESS] {
            loaded.program(name)?;
        }
        Ok(Some(loaded))
    }

    /// The program of this name, loaded and, if things are pinned, pinned. Those for interfaces
    /// without a link header are loaded, both at once, when the first of these is attached: few nodes
    /// have one, and the kernel takes half a second to verify them.
    ///
    /// # Errors
    ///
    /// If there is none, or the kernel does not take it.
    pub(crate) fn program(
        &mut self,
        name: &'static str,
    ) -> Result<&mut SchedClassifier, DatapathError> {
        let together = self.together(name);
        load(self.running(), name, together)?;
        self.pin(name)?;
        self.hand_over(name)?;
        typed(self.running(), name)
    }

    /// Enters the program of IPv6 that this one hands packets over to, and pins their table, once.
    fn hand_over(&mut self, name: &'static str) -> Result<(), DatapathError> {
        if !self.has_ipv6 {
            return Ok(());
        }
        ipv6_programs::enter(self.running(), name)?;
        let number = self.number();
        if let (Some(pins), false) = (&self.pins, self.pinned_ipv6.contains_key(&number)) {
            let pinned = pins.pin_ipv6(ipv6_programs::table(self.object())?)?;
            self.pinned_ipv6.insert(number, pinned);
            died_after("ipv6-programs");
        }
        Ok(())
    }

    /// Unpins the tables of programs of IPv6 that no hook's program looks at any more: all but those of the object
    /// and of the one that stands for it.
    ///
    /// # Errors
    ///
    /// If a pin cannot be removed.
    pub(crate) fn unpin_unused(&mut self) -> Result<(), PinError> {
        let number = self.number();
        self.pinned_ipv6
            .retain(|object, _| *object == OWN || *object == number);
        let kept: Vec<&str> = self.pinned_ipv6.values().map(String::as_str).collect();
        self.pins
            .as_ref()
            .map_or(Ok(()), |pins| pins.remove_ipv6_but(&kept))
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
        load(&mut self.ebpf, name, &[name])?;
        self.pin(name)?;
        typed(&mut self.ebpf, name)
    }

    /// The XDP program, loaded and, if things are pinned, pinned.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it.
    pub(crate) fn xdp_program(&mut self) -> Result<&mut Xdp, DatapathError> {
        let together = self.together(XDP);
        load(self.running(), XDP, together)?;
        self.pin(XDP)?;
        typed(self.running(), XDP)
    }

    /// Has programs be verified in a thread from now on.
    ///
    /// # Errors
    ///
    /// If the object for that is damaged.
    pub(crate) fn load_aside(&mut self) -> Result<(), DatapathError> {
        self.aside = Some(Aside::new()?);
        Ok(())
    }

    /// Returns whether the program of this name can be attached: [`Self::program`] does not wait for the kernel then.
    /// If not, the kernel begins to verify it, unless it has refused it.
    pub(crate) fn prepare(&mut self, name: &'static str) -> Readiness {
        let names = self.together(name);
        let Self {
            ebpf,
            telling,
            aside: Some(aside),
            replacement,
            ..
        } = self
        else {
            return Readiness::Ready;
        };
        let lacks = |ebpf: &Ebpf| !names.iter().all(|name| is_loaded(ebpf, name));
        if lacks(ebpf) {
            let batch = Batch { object: OWN, names };
            return aside.begin(batch, ebpf, requirements::explain);
        }
        match telling {
            // It is to be there when these go.
            Some(FlowPrograms(telling)) if lacks(telling) => {
                let object = *replacement;
                let batch = Batch { object, names };
                aside.begin(batch, telling, requirements::explain_flows)
            }
            _ => Readiness::Ready,
        }
    }

    /// Waits until programs are verified or refused, and are to be [taken back](Self::take_back); for ever if none are
    /// under way.
    pub(crate) async fn verified_aside(&mut self) {
        match &mut self.aside {
            Some(aside) => aside.ended().await,
            None => pending().await,
        }
    }

    /// Takes programs back from the thread. Returns whether others stand for these and now have a program more.
    pub(crate) fn take_back(&mut self) -> bool {
        let Self {
            ebpf,
            telling,
            aside: Some(aside),
            replacement,
            ..
        } = self
        else {
            return false;
        };
        let batch = aside.take_back(|object| match telling {
            _ if object == OWN => Some(ebpf),
            Some(FlowPrograms(telling)) if object == *replacement => Some(telling),
            _ => None,
        });
        batch.is_some_and(|batch| batch.object != OWN) && telling.is_some()
    }

    /// Returns the names of the programs that watchers want: those that are loaded.
    pub(crate) fn packet_programs(&self) -> Vec<&'static str> {
        let names = [INGRESS, INGRESS_L3, XDP].into_iter();
        let names = names.flat_map(|name| self.together(name).iter().copied());
        names.filter(|name| is_loaded(&self.ebpf, name)).collect()
    }

    /// Has other programs stand for these, or these for themselves; returns those that did until now.
    pub(crate) const fn replace(&mut self, telling: Option<FlowPrograms>) -> Option<FlowPrograms> {
        self.replacement += 1;
        mem::replace(&mut self.telling, telling)
    }

    /// Returns whether other programs stand for these.
    pub(crate) const fn is_replaced(&self) -> bool {
        self.telling.is_some()
    }

    /// The object whose programs are attached.
    const fn running(&mut self) -> &mut Ebpf {
        match &mut self.telling {
            Some(FlowPrograms(ebpf)) => ebpf,
            None => &mut self.ebpf,
        }
    }

    /// As [`Self::running`], to look at.
    const fn object(&self) -> &Ebpf {
        match &self.telling {
            Some(FlowPrograms(ebpf)) => ebpf,
            None => &self.ebpf,
        }
    }

    /// The number of that object.
    const fn number(&self) -> u64 {
        match self.telling {
            Some(_) => self.replacement,
            None => OWN,
        }
    }

    /// The programs that are verified with this one: those of interfaces without a link header are used together.
    fn together(&self, name: &'static str) -> &'static [&'static str] {
        match (name, self.has_ipv6) {
            (XDP, _) => &[XDP],
            (INGRESS_L3 | EGRESS_L3 | INGRESS_V6_L3 | EGRESS_V6_L3, true) => {
                &[INGRESS_L3, INGRESS_V6_L3, EGRESS_L3, EGRESS_V6_L3]
            }
            (INGRESS_L3 | EGRESS_L3, false) => &[INGRESS_L3, EGRESS_L3],
            (_, true) => &[INGRESS, INGRESS_V6, EGRESS, EGRESS_V6],
            (_, false) => &[INGRESS, EGRESS],
        }
    }

    /// Pins a program for the next agent, once; but not one that stands for another.
    fn pin(&mut self, name: &'static str) -> Result<(), DatapathError> {
        if let (Some(pins), None, false) = (&self.pins, &self.telling, self.pinned.contains(name)) {
            pins.pin_program(name, any(&mut self.ebpf, name)?)?;
            self.pinned.insert(name);
        }
        Ok(())
    }

    /// Returns the pin directory, if there is one.
    pub(crate) const fn pins(&self) -> Option<&Pins> {
        self.pins.as_ref()
    }

    /// As [`Self::pins`], to make it again.
    pub(crate) const fn pins_mut(&mut self) -> Option<&mut Pins> {
        self.pins.as_mut()
    }

    /// Removes the pin of a program that no hook has; one that is not there is no error.
    ///
    /// # Errors
    ///
    /// If the file system refuses.
    pub(crate) fn unpin(&mut self, name: &'static str) -> Result<(), PinError> {
        self.pinned.remove(name);
        let pins = self.pins.as_ref();
        pins.map_or(Ok(()), |pins| pins.remove_program(name))
    }

    /// Pins those programs, and tables of programs of IPv6, again that are not pinned any more.
    pub(crate) fn keep_pins(&self, repair: &mut Repair) {
        let Some(pins) = &self.pins else {
            return;
        };
        for (object, name) in &self.pinned_ipv6 {
            let ebpf = match &self.telling {
                _ if *object == OWN => &self.ebpf,
                Some(FlowPrograms(telling)) if *object == self.replacement => telling,
                // No hook has its programs any more.
                _ => continue,
            };
            if let Ok(table) = ipv6_programs::table(ebpf) {
                repair.object(&pins.map(name), table.fd().as_fd());
            }
        }
        for name in &self.pinned {
            let program = self.ebpf.program(name);
            if let Some(Ok(program)) = program.map(Program::fd) {
                repair.object(&pins.program(name), program.as_fd());
            }
        }
    }

    /// The object's tables, and the programs' log.
    pub(crate) const fn ebpf_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }
}

fn is_loaded(ebpf: &Ebpf, name: &str) -> bool {
    let program = ebpf.program(name);
    program.is_some_and(|program| program.fd().is_ok())
}

/// Loads the program of this name, if it is not, with others that are needed with it.
fn load(ebpf: &mut Ebpf, name: &'static str, with: &[&'static str]) -> Result<(), DatapathError> {
    any(ebpf, name)?;
    if with.iter().all(|name| is_loaded(ebpf, name)) {
        return Ok(());
    }
    let outcomes = verify(ebpf, with, requirements::explain);
    outcomes.into_iter().try_for_each(|(_, outcome)| outcome)
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
