//! A program on one hook of one interface.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use aya::{
    programs::{
        LinkOrder,
        tc::{SchedClassifierLink, TcAttachOptions},
    },
    util::KernelVersion,
};
use nix::net::if_::if_indextoname;
use tracing::{info, warn};

use crate::{
    attach::{
        clsact::{self, Filter},
        hook::Hook,
        link_layer::LinkLayer,
        release::release,
        xdp,
    },
    error::DatapathError,
    object::loaded::Loaded,
    pins::{
        directory::{LinkPin, Pins, Place},
        error::PinError,
        held::{Held, Repair},
        link::{is_dead, open_link, pin_link},
    },
    sys::crash::died_after,
};

/// The first kernel with TCX links; older ones attach as [`clsact`] does.
pub(crate) const TCX_SINCE: KernelVersion = KernelVersion::new(6, 6, 0);

/// A program on a hook. Dropping it detaches the program, unless it is pinned or noted.
#[derive(Debug)]
pub(crate) enum Attachment {
    /// It ends with the agent. `None`: it is detached, because the kernel refused another program in its place.
    Link(Option<SchedClassifierLink>),
    /// It outlives the agent: the kernel keeps what is pinned.
    Pinned(Held),
    /// It outlives the agent: the kernel keeps filters.
    Filter(Filter),
}

impl Attachment {
    /// Detaches the program.
    pub(crate) fn detach(self) {
        let detached = match self {
            Self::Link(_) => Ok(()),
            Self::Pinned(held) => held.detach(),
            Self::Filter(filter) => filter.detach(),
        };
        if let Err(error) = detached {
            warn!(%error, "a program stays attached");
        }
    }

    /// Returns whether the program was attached as a filter to this hook of an interface, and the filter is gone.
    pub(crate) fn is_removed(&self, index: u32, hook: Hook) -> bool {
        let may_be_filter = match self {
            Self::Link(link) => link.is_some() && !has_tcx(),
            Self::Pinned(_) => false,
            Self::Filter(_) => true,
        };
        may_be_filter && !clsact::is_there(index, hook)
    }

    /// Forgets a filter that is gone: dropping it later would remove the next one in its place.
    pub(crate) fn forget(&mut self) {
        if let Self::Link(link) = self {
            drop(link.take());
        }
    }

    /// Pins the link again if it is not pinned any more, or notes the filter again.
    pub(crate) fn keep_pin(&self, repair: &mut Repair) {
        match self {
            Self::Link(_) => {}
            Self::Pinned(held) => held.keep(repair),
            Self::Filter(filter) => filter.keep_note(repair),
        }
    }

    /// Has the hook of an interface run the program of this name that `object` has now, in one step.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: the hook has the program of before, or, if that was to end with the agent, none.
    pub(crate) fn replace(
        &mut self,
        object: &mut Loaded,
        place: (u32, Hook),
        name: &'static str,
    ) -> Result<(), DatapathError> {
        let pin = match self {
            Self::Link(link) => {
                let Some(held) = link.take() else {
                    return Ok(());
                };
                let program = object.program(name)?;
                let replaced = program
                    .attach_to_link(held)
                    .and_then(|link| program.take_link(link))
                    .map_err(|source| DatapathError::Program { name, source })?;
                *link = Some(replaced);
                return Ok(());
            }
            Self::Pinned(held) => held.path().to_owned(),
            Self::Filter(filter) => filter.note().to_owned(),
        };
        *self = adopt_one(object, &pin, place, name)?;
        Ok(())
    }
}

pub(crate) fn has_tcx() -> bool {
    KernelVersion::current().is_ok_and(|version| version >= TCX_SINCE)
}

/// Attaches the program of `hook` for the interface's link layer to it, so that it outlives the
/// agent if there is a place for what that needs.
pub(crate) fn attach(
    object: &mut Loaded,
    interface: &str,
    index: u32,
    hook: Hook,
) -> Result<Attachment, DatapathError> {
    let name = hook.program(LinkLayer::of_interface(interface)?);
    let failed = |source| DatapathError::Program { name, source };
    let pin = object.pins().map(|pins| pins.link(index, hook.name()));
    let program = object.program(name)?;
    if !has_tcx() {
        return match pin {
            Some(note) => Filter::attach((name, program), (interface, index), hook, note)
                .map(Attachment::Filter),
            None => {
                clsact::attach(program, interface, hook).map(|link| Attachment::Link(Some(link)))
            }
        }
        .map_err(failed);
    }
    // Ahead of a CNI's own programs, which then see translated packets.
    let first = TcAttachOptions::TcxOrder(LinkOrder::first());
    let link = program
        .attach_with_options(interface, hook.attach_type(), first)
        .and_then(|link| program.take_link(link))
        .map_err(failed)?;
    match pin {
        Some(pin) => Ok(Attachment::Pinned(pin_link(link, &pin)?)),
        None => Ok(Attachment::Link(Some(link))),
    }
}

/// Replaces the programs of all pinned links by ours, each by the one for its interface's link
/// layer. What is no link, or not one of an interface that exists, is removed.
pub(crate) fn adopt(object: &mut Loaded) -> BTreeMap<(u32, Hook), Attachment> {
    let mut adopted = BTreeMap::new();
    let mut links = match object.pins().map_or_else(|| Ok(Vec::new()), of_interfaces) {
        Ok(links) => links,
        Err(error) => {
            warn!(%error, "what an earlier agent attached is not taken over");
            return adopted;
        }
    };
    // The way back first, as where they are attached.
    links.sort_by_key(|(_, place)| {
        place.map(|(index, hook)| {
            let order = Hook::ALL.into_iter().position(|known| known == hook);
            (order, index)
        })
    });
    for (path, place) in links {
        let Some((index, hook)) = place else {
            discard(&path, "it is of another network namespace");
            continue;
        };
        // An interface without a name is gone, which its link will show.
        let layer = if_indextoname(index).map_or(Ok(LinkLayer::Ethernet), |name| {
            LinkLayer::of_interface(&name.to_string_lossy())
        });
        let layer = match layer {
            Ok(layer) => layer,
            Err(error) => {
                discard(&path, &error.to_string());
                continue;
            }
        };
        if hook == Hook::Ingress {
            died_after("egress");
        }
        match adopt_one(object, &path, (index, hook), hook.program(layer)) {
            Ok(attachment) => {
                info!(index, hook = hook.name(), "program replaced");
                adopted.insert((index, hook), attachment);
                if hook == Hook::Ingress {
                    died_after("ingress");
                }
            }
            Err(DatapathError::Program { source, .. })
                if is_dead(&source) || clsact::is_gone(&source) =>
            {
                discard(&path, "its interface is gone");
            }
            Err(error) => discard(&path, &error.to_string()),
        }
    }
    adopted
}

/// The index of an interface of our network namespace, and a hook of it.
type InterfaceHook = (u32, Hook);

/// The pinned links but those of cgroups and of XDP, each with the interface's index and the hook if it is one
/// of our network namespace.
fn of_interfaces(pins: &Pins) -> Result<Vec<(PathBuf, Option<InterfaceHook>)>, PinError> {
    let links = pins.links()?.into_iter();
    Ok(links
        .filter_map(|LinkPin { path, place }| match place {
            Some(Place::Cgroup(_)) => None,
            Some(Place::Interface { hook, .. }) if hook == xdp::HOOK => None,
            Some(Place::Interface {
                namespace,
                index,
                hook,
            }) if pins.is_ours(namespace) => {
                let place = Hook::named(&hook).map(|hook| (index, hook));
                Some((path, place))
            }
            Some(Place::Interface { .. }) | None => Some((path, None)),
        })
        .collect())
}

fn adopt_one(
    object: &mut Loaded,
    path: &Path,
    (index, hook): (u32, Hook),
    name: &'static str,
) -> Result<Attachment, DatapathError> {
    let failed = |source| DatapathError::Program { name, source };
    if clsact::is_note(path) {
        let program = object.program(name)?;
        return Filter::adopt((name, program), index, hook, path.to_owned())
            .map(Attachment::Filter)
            .map_err(failed);
    }
    let link = open_link(path)?;
    let held = Held::open(path)?;
    let program = object.program(name)?;
    program
        .attach_to_link(link)
        .and_then(|link| program.take_link(link))
        .map_err(failed)?;
    Ok(Attachment::Pinned(held))
}

fn discard(path: &Path, reason: &str) {
    match release(path) {
        Ok(()) => info!(path = %path.display(), reason, "removed a pinned link"),
        Err(error) => warn!(%error, reason, "a pinned link stays"),
    }
}
