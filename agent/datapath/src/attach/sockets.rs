//! The programs at a cgroup, by which processes of the node become clients where they open a socket.
//!
//! All that are wanted are attached, or none is: a request whose reply is not translated would be
//! worse than one that goes the way of packets.

use std::{
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use aya::programs::{CgroupAttachMode, cgroup_sock_addr::CgroupSockAddrLink};
use tracing::{debug, info, warn};

use crate::{
    attach::{cgroup::Cgroup, socket_hook::SocketHook},
    error::{DatapathError, SocketError},
    object::{
        loaded::Loaded,
        sockets::{SocketLb, SocketOptions},
    },
    pins::{
        directory::{LinkPin, Place, remove},
        error::PinError,
        held::{Held, Repair},
        link::pin_link,
    },
    sys::cgroup_link::CgroupLink,
};

/// State of the translation at the socket, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketStatus {
    /// For whom it is to be.
    pub mode: SocketLb,
    /// The directory of the cgroup whose processes it is for.
    pub cgroup: Option<PathBuf>,
    /// True if the cgroup has every process of the machine.
    pub is_root: bool,
    /// The hooks that have programs, by name; all that are wanted, or none.
    pub hooks: Vec<&'static str>,
    /// Why there are none.
    pub problem: Option<String>,
}

/// The programs at the cgroup.
#[derive(Debug)]
pub(crate) struct Sockets {
    options: SocketOptions,
    cgroup: Option<Cgroup>,
    /// The last that was attached is the first here, and is the first to go.
    attached: Vec<Attached>,
    problem: Option<String>,
    /// Path of a cgroup that had the programs and was removed; another one is looked for.
    lost: Option<PathBuf>,
    /// Path of the last cgroup that was removed, once another one has the programs.
    replaced: Option<PathBuf>,
}

/// A program at a hook.
#[derive(Debug)]
struct Attached {
    hook: SocketHook,
    link: Link,
}

/// Link that keeps a program at its hook.
#[derive(Debug)]
enum Link {
    /// It ends with the agent.
    Owned(#[expect(dead_code, reason = "held, not used")] CgroupSockAddrLink),
    /// It outlives the agent: the kernel keeps what is pinned.
    Pinned(Held),
}

impl Link {
    /// Detaches the program of this hook.
    fn detach(self, hook: SocketHook) {
        let hook = hook.name();
        let detached = match self {
            Self::Owned(_) => Ok(()),
            Self::Pinned(held) => held.detach(),
        };
        log_detached(hook, detached);
    }
}

impl Sockets {
    /// Looks for the cgroup. Nothing is attached yet.
    ///
    /// # Errors
    ///
    /// If there is none and this is required.
    pub(crate) fn open(options: &SocketOptions) -> Result<Self, DatapathError> {
        let mut sockets = Self {
            options: options.clone(),
            cgroup: None,
            attached: Vec::new(),
            problem: None,
            lost: None,
            replaced: None,
        };
        if options.mode == SocketLb::Off {
            return Ok(sockets);
        }
        match find(options) {
            Ok(cgroup) => {
                let (path, is_root) = (cgroup.path().display(), cgroup.is_root());
                debug!(%path, is_root, "found the cgroup whose sockets are translated");
                sockets.cgroup = Some(cgroup);
            }
            Err(error) => sockets.give_up(error.into())?,
        }
        Ok(sockets)
    }

    /// The programs that [`Self::attach`] is going to need, the dearest first.
    pub(crate) fn wanted(&self) -> Vec<&'static str> {
        if self.cgroup.is_none() {
            return Vec::new();
        }
        hooks(&self.options)
            .rev()
            .map(SocketHook::program)
            .collect()
    }

    /// Attaches the programs, the way back first. Links that an earlier agent pinned run ours then,
    /// each replaced in one step; those that are not wanted any more are removed.
    ///
    /// # Errors
    ///
    /// If the kernel refuses and this is required.
    pub(crate) fn attach(&mut self, object: &mut Loaded) -> Result<(), DatapathError> {
        if let Err(error) = self.attach_wanted(object) {
            self.detach_all();
            self.give_up(error)?;
        }
        if let Err(error) = self.remove_others(object) {
            warn!(%error, "what an earlier agent attached to a cgroup may stay");
        }
        Ok(())
    }

    /// Attaches the programs to the cgroup that now has the path of the one before, or that is taken for the root, if
    /// that one was removed. Until there is one, this is to be called again. Returns whether they are attached now that
    /// were not before.
    pub(crate) fn follow_cgroup(&mut self, object: &mut Loaded) -> bool {
        if !self.attached.is_empty()
            && let Some(gone) = self.cgroup.take_if(|cgroup| cgroup.is_gone())
        {
            let path = gone.path().to_owned();
            info!(path = %path.display(), "the cgroup that had the programs for sockets was removed");
            self.detach_all();
            self.lost = Some(path);
        }
        let Some(path) = self.lost.clone() else {
            return false;
        };
        match self.attach_anew(object) {
            Ok(()) => {
                let now = self.cgroup.as_ref().map(|cgroup| cgroup.path().display());
                info!(
                    cgroup = now.map(tracing::field::display),
                    "another cgroup has the programs for sockets"
                );
                self.replaced = self.lost.take();
                self.problem = None;
                true
            }
            Err(error) => {
                self.detach_all();
                self.cgroup = None;
                self.problem = Some(format!(
                    "the cgroup {} was removed, and no other one has the programs yet: {}",
                    path.display(),
                    reason(error),
                ));
                false
            }
        }
    }

    fn attach_anew(&mut self, object: &mut Loaded) -> Result<(), DatapathError> {
        self.cgroup = Some(find(&self.options)?);
        self.attach_wanted(object)
    }

    /// Detaches the programs, the way back last.
    fn detach_all(&mut self) {
        for Attached { hook, link } in self.attached.drain(..) {
            link.detach(hook);
        }
    }

    /// Pins those links again that are not pinned any more.
    pub(crate) fn keep_pins(&self, repair: &mut Repair) {
        for Attached { link, .. } in &self.attached {
            if let Link::Pinned(held) = link {
                held.keep(repair);
            }
        }
    }

    /// Returns a sentence about a cgroup that was removed, if one was and another one has the programs since.
    pub(crate) fn replacement(&self) -> Option<String> {
        let (before, now) = (self.replaced.as_ref()?, self.cgroup.as_ref()?);
        Some(format!(
            "the cgroup {} was removed, and the programs for sockets with it: they are attached to the cgroup {} now",
            before.display(),
            now.path().display(),
        ))
    }

    /// Returns its state.
    pub(crate) fn status(&self) -> SocketStatus {
        let hooks = self.attached.iter().rev();
        SocketStatus {
            mode: self.options.mode,
            cgroup: self.cgroup.as_ref().map(|cgroup| cgroup.path().to_owned()),
            is_root: self.cgroup.as_ref().is_some_and(Cgroup::is_root),
            hooks: hooks.map(|attached| attached.hook.name()).collect(),
            problem: self.problem.clone(),
        }
    }

    /// The reason for which nothing is attached that is to be.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn give_up(&mut self, error: DatapathError) -> Result<(), DatapathError> {
        if self.options.required {
            return Err(error);
        }
        self.problem = Some(reason(error));
        Ok(())
    }

    fn attach_wanted(&mut self, object: &mut Loaded) -> Result<(), DatapathError> {
        let Self {
            options,
            cgroup,
            attached,
            ..
        } = self;
        let Some(cgroup) = cgroup else {
            return Ok(());
        };
        let wanted: Vec<_> = hooks(options).collect();
        // A program that the kernel refuses is found out before any is attached.
        for hook in &wanted {
            object.socket_program(hook.program())?;
        }
        for hook in wanted {
            let link = attach_one(object, cgroup, hook)?;
            attached.insert(0, Attached { hook, link });
        }
        Ok(())
    }

    /// Removes pinned links and programs that are not ours, the way back last.
    fn remove_others(&self, object: &mut Loaded) -> Result<(), PinError> {
        let Some(pins) = object.pins() else {
            return Ok(());
        };
        let is_ours = |hook: SocketHook| self.attached.iter().any(|ours| ours.hook == hook);
        let mut others = Vec::new();
        for LinkPin { path, place } in pins.links()? {
            if let Some(Place::Cgroup(name)) = place {
                let hook = SocketHook::named(&name);
                if !hook.is_some_and(is_ours) {
                    others.push((hook, path, name));
                }
            }
        }
        others.sort_by(|(one, ..), (other, ..)| other.cmp(one));
        for (_, path, name) in others {
            log_detached(&name, remove(&path));
        }
        for hook in SocketHook::all().filter(|hook| !is_ours(*hook)) {
            object.unpin(hook.program())?;
        }
        Ok(())
    }
}

/// Returns the cgroup that is to have the programs.
fn find(options: &SocketOptions) -> Result<Cgroup, SocketError> {
    match &options.cgroup {
        Some(path) => Cgroup::open(path),
        None => Cgroup::find(),
    }
}

/// Returns the reason of an error as the status shows it.
fn reason(error: DatapathError) -> String {
    match error {
        DatapathError::Sockets(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// The hooks that are wanted, in the order in which they are attached.
fn hooks(options: &SocketOptions) -> impl DoubleEndedIterator<Item = SocketHook> {
    SocketHook::all().filter(|hook| options.protect_node_ports || !hook.is_bind())
}

fn attach_one(
    object: &mut Loaded,
    cgroup: &Cgroup,
    hook: SocketHook,
) -> Result<Link, DatapathError> {
    let pin = object.pins().map(|pins| pins.cgroup_link(hook.name()));
    let failed = |source| {
        DatapathError::Sockets(SocketError::Attach {
            hook: hook.name(),
            cgroup: cgroup.path().to_owned(),
            source,
        })
    };
    let program = object.socket_program(hook.program())?;
    if let Some(pin) = &pin
        && let Some(link) = adoptable(pin, cgroup)
    {
        let fd = program.fd().map_err(failed)?;
        match link.replace_program(fd.as_fd()) {
            Ok(()) => {
                info!(hook = hook.name(), "program replaced");
                return Ok(Link::Pinned(Held::new(link, pin)));
            }
            // Its cgroup is gone just now, if not before.
            Err(error) => warn!(%error, hook = hook.name(), "a pinned link is given up"),
        }
    }
    let link = program
        // A link always lets others attach theirs.
        .attach(cgroup, CgroupAttachMode::default())
        .and_then(|link| program.take_link(link))
        .map_err(failed)?;
    let Some(pin) = pin else {
        return Ok(Link::Owned(link));
    };
    Ok(Link::Pinned(pin_link(link, &pin)?))
}

/// The link that is pinned there, if it is one of this cgroup.
fn adoptable(pin: &Path, cgroup: &Cgroup) -> Option<CgroupLink> {
    if !pin.exists() {
        return None;
    }
    let found = CgroupLink::from_pin(pin).and_then(|link| {
        let of = link.cgroup()?;
        Ok((link, of))
    });
    let reason = match found {
        Ok((link, Some(of))) if of == cgroup.id() => return Some(link),
        Ok((_, Some(_))) => "it is of another cgroup".to_owned(),
        Ok((_, None)) => "its cgroup is gone".to_owned(),
        Err(error) => error.to_string(),
    };
    info!(path = %pin.display(), reason, "a pinned link is replaced");
    None
}

fn log_detached(hook: &str, detached: Result<(), PinError>) {
    match detached {
        Ok(()) => info!(hook, "detached from the cgroup"),
        Err(error) => warn!(%error, hook, "a program stays at a cgroup"),
    }
}
