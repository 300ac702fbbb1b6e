//! The XDP program on one interface.

use std::{collections::BTreeSet, path::Path};

use aya::programs::{
    ProgramError, loaded_programs,
    xdp::{XdpLink, XdpMode as Attach},
};
use tracing::warn;

use crate::{
    error::DatapathError,
    netlink::links::{Link, Running},
    object::{loaded::Loaded, programs::XDP, xdp::XdpMode},
    pins::{
        directory::{LinkPin, Pins, Place},
        held::{Held, Repair},
        link::{open_xdp_link, pin_link},
    },
};

/// Name of the hook in pins.
pub(crate) const HOOK: &str = "xdp";

/// The program on an interface. Dropping it detaches the program, unless it is pinned.
#[derive(Debug)]
pub(crate) enum XdpAttachment {
    /// It ends with the agent. `None`: it is detached, because the kernel refused another program in its place.
    Link(Option<XdpLink>),
    /// It outlives the agent: the kernel keeps what is pinned.
    Pinned(Held),
}

impl XdpAttachment {
    /// Has the interface run the program that `object` has now, in one step.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: the interface has the program of before, or, if that was to end with the agent, none.
    pub(crate) fn replace(&mut self, object: &mut Loaded) -> Result<(), DatapathError> {
        let link = match self {
            Self::Link(link) => link,
            Self::Pinned(held) => {
                *self = adopt(object, held.path())?;
                return Ok(());
            }
        };
        let Some(held) = link.take() else {
            return Ok(());
        };
        let program = object.xdp_program()?;
        let replaced = program
            .attach_to_link(held)
            .and_then(|link| program.take_link(link))
            .map_err(failed)?;
        *link = Some(replaced);
        Ok(())
    }

    /// Pins the link again if it is not pinned any more.
    pub(crate) fn keep_pin(&self, repair: &mut Repair) {
        if let Self::Pinned(held) = self {
            held.keep(repair);
        }
    }

    /// Detaches the program.
    pub(crate) fn detach(self) {
        if let Self::Pinned(held) = self
            && let Err(error) = held.detach()
        {
            warn!(%error, "the XDP program stays attached");
        }
    }
}

/// Program that is attached, its place now, and a note if that is not where it was wanted first.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) attachment: XdpAttachment,
    pub(crate) running: Running,
    pub(crate) note: Option<String>,
}

/// Attaches the program to an interface as `mode` demands, so that it outlives the agent if there is a
/// place for what that needs.
pub(crate) fn attach(
    object: &mut Loaded,
    link: &Link,
    mode: XdpMode,
) -> Result<Attached, DatapathError> {
    if let Some(other) = link.xdp {
        return Err(DatapathError::OtherXdp {
            name: name_of(other.program),
            id: other.program,
        });
    }
    let index = link.index;
    let in_driver = |object: &mut Loaded| attach_as(object, index, Attach::Driver);
    let before_stack = |object: &mut Loaded| attach_as(object, index, Attach::Skb);
    let (attachment, running, note) = match mode {
        XdpMode::Native => (in_driver(object)?, Running::Native, None),
        XdpMode::Off | XdpMode::Generic => (before_stack(object)?, Running::Generic, None),
        XdpMode::Auto => match in_driver(object) {
            Ok(attachment) => (attachment, Running::Native, None),
            Err(error) => {
                let note = format!("not in the driver: {error}");
                (before_stack(object)?, Running::Generic, Some(note))
            }
        },
    };
    Ok(Attached {
        attachment,
        running,
        note,
    })
}

fn attach_as(
    object: &mut Loaded,
    index: u32,
    mode: Attach,
) -> Result<XdpAttachment, DatapathError> {
    let pin = object.pins().map(|pins: &Pins| pins.link(index, HOOK));
    let program = object.xdp_program()?;
    let link = program
        .attach_to_if_index(index, mode)
        .and_then(|link| program.take_link(link))
        .map_err(failed)?;
    Ok(match &pin {
        Some(pin) => XdpAttachment::Pinned(pin_link(link, pin)?),
        None => XdpAttachment::Link(Some(link)),
    })
}

/// The interfaces of this network namespace with a link that an earlier agent pinned, by their indexes.
pub(crate) fn pinned(pins: Option<&Pins>) -> BTreeSet<u32> {
    let Some(pins) = pins else {
        return BTreeSet::new();
    };
    // Taking them over reports why they cannot be listed.
    let links = pins.links().unwrap_or_default().into_iter();
    let ours = links.filter_map(|LinkPin { path: _, place }| match place? {
        Place::Interface {
            namespace,
            index,
            hook,
        } if hook == HOOK && pins.is_ours(namespace) => Some(index),
        _ => None,
    });
    ours.collect()
}

/// Replaces the program of the link that is pinned at `path` by ours, in one step.
pub(crate) fn adopt(object: &mut Loaded, path: &Path) -> Result<XdpAttachment, DatapathError> {
    let link = open_xdp_link(path)?;
    let program = object.xdp_program()?;
    let held = Held::open(path)?;
    program
        .attach_to_link(link)
        .and_then(|link| program.take_link(link))
        .map_err(failed)?;
    Ok(XdpAttachment::Pinned(held))
}

const fn failed(source: ProgramError) -> DatapathError {
    DatapathError::Program { name: XDP, source }
}

/// Returns the name of the program with this number.
fn name_of(id: u32) -> String {
    let mut programs = loaded_programs().filter_map(Result::ok);
    let program = programs.find(|program| program.id() == id);
    program
        .and_then(|program| program.name_as_str().map(str::to_owned))
        .unwrap_or_else(|| "without a name".to_owned())
}
