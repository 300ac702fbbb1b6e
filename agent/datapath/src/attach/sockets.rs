//! The programs at a cgroup, by which processes of the node become clients where they open a socket.
//!
//! All that are wanted are attached, or none is: a request whose reply is not translated would be
//! worse than one that goes the way of packets.

use std::{
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use aya::programs::{
    CgroupAttachMode, ProgramError, cgroup_sock_addr::CgroupSockAddrLink, links::FdLink,
};
use tracing::{debug, info, warn};

use crate::{
    attach::{cgroup::Cgroup, socket_hook::SocketHook},
    error::{DatapathError, SocketError},
    object::{
        loaded::Loaded,
        sockets::{SocketLb, SocketOptions},
    },
    pins::{
        directory::{LinkPin, Pins, Place, remove},
        error::PinError,
        link::replace_link,
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
    Pinned(PathBuf),
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
        };
        if options.mode == SocketLb::Off {
            return Ok(sockets);
        }
        let found = match &options.cgroup {
            Some(path) => Cgroup::open(path),
            None => Cgroup::find(),
        };
        match found {
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
            // The way back last.
            for Attached { hook, link } in self.attached.drain(..) {
                if let Link::Pinned(path) = link {
                    discard(&path, hook.name());
                }
            }
            self.give_up(error)?;
        }
        if let Some(pins) = object.pins()
            && let Err(error) = self.remove_others(pins)
        {
            warn!(%error, "what an earlier agent attached to a cgroup may stay");
        }
        Ok(())
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
        self.problem = Some(match error {
            DatapathError::Sockets(error) => error.to_string(),
            error => error.to_string(),
        });
        Ok(())
    }

    fn attach_wanted(&mut self, object: &mut Loaded) -> Result<(), DatapathError> {
        let Self {
            options,
            cgroup,
            attached,
            problem: _,
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
    fn remove_others(&self, pins: &Pins) -> Result<(), PinError> {
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
            discard(&path, &name);
        }
        for hook in SocketHook::all().filter(|hook| !is_ours(*hook)) {
            pins.remove_program(hook.program())?;
        }
        Ok(())
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
                return Ok(Link::Pinned(pin.clone()));
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
    let link = FdLink::try_from(link)
        .map_err(|error| failed(ProgramError::IOError(io::Error::other(error))))?;
    replace_link(link, &pin)?;
    Ok(Link::Pinned(pin))
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

fn discard(path: &Path, hook: &str) {
    match remove(path) {
        Ok(()) => info!(hook, "detached from the cgroup"),
        Err(error) => warn!(%error, hook, "a program stays at a cgroup"),
    }
}
