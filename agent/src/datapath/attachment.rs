//! A program on one hook of one interface.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use aya::{
    programs::{
        LinkOrder, ProgramError,
        tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcError, TcHandle},
    },
    util::KernelVersion,
};
use nix::net::if_::if_indextoname;
use tracing::{info, warn};

use super::{
    Datapath, DatapathError,
    hook::Hook,
    link_layer::LinkLayer,
    pins::{self, LinkPin},
};

/// The first kernel with TCX links; older ones attach through a clsact qdisc.
const TCX_SINCE: KernelVersion = KernelVersion::new(6, 6, 0);

/// A program on a hook. Dropping it detaches the program, unless it is pinned.
#[derive(Debug)]
pub struct Attachment {
    _link: SchedClassifierLink,
    pin: Option<PathBuf>,
}

impl Attachment {
    /// Detaches the program.
    pub fn detach(self) {
        if let Some(pin) = &self.pin
            && let Err(error) = pins::remove(pin)
        {
            warn!(%error, "a program stays attached");
        }
    }
}

/// Attaches the program of `hook` for the interface's link layer to it, and pins the link if there
/// is a place for it.
pub fn attach(
    datapath: &mut Datapath,
    interface: &str,
    index: u32,
    hook: Hook,
) -> Result<Attachment, DatapathError> {
    let name = hook.program(LinkLayer::of_interface(interface)?);
    let failed = |source| DatapathError::Program { name, source };
    let tcx = KernelVersion::current().is_ok_and(|version| version >= TCX_SINCE);
    let options = if tcx {
        // Ahead of a CNI's own programs, which then see translated packets.
        TcAttachOptions::TcxOrder(LinkOrder::first())
    } else {
        match tc::qdisc_add_clsact(interface) {
            Ok(()) | Err(TcError::AlreadyAttached) => {}
            Err(source) => return Err(failed(ProgramError::from(source))),
        }
        TcAttachOptions::Netlink(NlOptions {
            priority: 1,
            handle: TcHandle::AUTO_ASSIGN,
            classid: None,
        })
    };
    let program = datapath.program(name)?;
    let link = program
        .attach_with_options(interface, hook.attach_type(), options)
        .and_then(|link| program.take_link(link))
        .map_err(failed)?;
    match datapath.pins() {
        Some(pins) if tcx => {
            let path = pins.link(index, hook);
            Ok(Attachment {
                _link: pins::pin_link(link, &path)?,
                pin: Some(path),
            })
        }
        Some(_) => {
            warn!(
                interface,
                "nothing translates here while no agent runs: links need Linux 6.6"
            );
            Ok(Attachment {
                _link: link,
                pin: None,
            })
        }
        None => Ok(Attachment {
            _link: link,
            pin: None,
        }),
    }
}

/// Replaces the programs of all pinned links by ours, each by the one for its interface's link
/// layer. What is no link, or not one of an interface that exists, is removed.
pub fn adopt(datapath: &mut Datapath) -> BTreeMap<(u32, Hook), Attachment> {
    let mut adopted = BTreeMap::new();
    let links = match datapath
        .pins()
        .map_or_else(|| Ok(Vec::new()), pins::Pins::links)
    {
        Ok(links) => links,
        Err(error) => {
            warn!(%error, "what an earlier agent attached is not taken over");
            return adopted;
        }
    };
    for LinkPin { path, place } in links {
        let Some((index, hook)) = place else {
            discard(&path, "it is of another network namespace");
            continue;
        };
        // An interface without a name is gone, which its link will say.
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
        match adopt_one(datapath, &path, hook.program(layer)) {
            Ok(link) => {
                info!(index, hook = hook.name(), "program replaced");
                let pin = Some(path);
                adopted.insert((index, hook), Attachment { _link: link, pin });
            }
            Err(DatapathError::Program { source, .. }) if pins::is_dead(&source) => {
                discard(&path, "its interface is gone");
            }
            Err(error) => discard(&path, &error.to_string()),
        }
    }
    adopted
}

fn adopt_one(
    datapath: &mut Datapath,
    path: &Path,
    name: &'static str,
) -> Result<SchedClassifierLink, DatapathError> {
    let link = pins::open_link(path)?;
    let program = datapath.program(name)?;
    program
        .attach_to_link(link)
        .and_then(|link| program.take_link(link))
        .map_err(|source| DatapathError::Program { name, source })
}

fn discard(path: &Path, reason: &str) {
    match pins::remove(path) {
        Ok(()) => info!(path = %path.display(), reason, "removed a pinned link"),
        Err(error) => warn!(%error, reason, "a pinned link stays"),
    }
}
