//! The XDP program on one uplink: what becomes of it as the interface comes and goes.

use std::{
    thread,
    time::{Duration, Instant},
};

use tracing::{info, warn};

use crate::{
    attach::xdp::{self, Attached, XdpAttachment},
    netlink::links::{self, Link, Running},
    object::{aside::Readiness, loaded::Loaded, programs::XDP, xdp::XdpMode},
};

/// The reason that is shown of an interface whose frames have no Ethernet header.
const UNSUITED: &str = "it has no Ethernet address";

/// State of an uplink, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UplinkState {
    /// There is none of this name, or that the pattern means: it is waited for.
    Absent,
    /// The kernel verifies the program.
    Loading,
    /// The XDP program runs on it.
    Attached {
        /// The kernel's index of it.
        index: u32,
        /// True if it runs in the driver, and not only before the stack.
        native: bool,
        /// Why not, if it was to.
        note: Option<String>,
    },
    /// It has no XDP program, for this reason: TC does all.
    Failed(String),
}

/// An uplink, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UplinkStatus {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: UplinkState,
}

/// Progress of an interface that is to have the program.
#[derive(Debug)]
pub(crate) enum State {
    Absent,
    /// It waits for the program, which the kernel verifies; it may have failed before, for this reason.
    Loading(Option<String>),
    Attached(u32, Attached),
    Failed(String),
    /// No driver of this kind of interface can run the program.
    Unsuited,
    /// The program must not run there, for this reason.
    Refused(String),
}

impl State {
    /// The state of interface `name` after `before`, which is `link` if it exists, on which an earlier
    /// agent has left what is `adopted`.
    pub(crate) fn after(
        before: Option<Self>,
        object: &mut Loaded,
        mode: XdpMode,
        (name, link): (&str, Option<&Link>),
        adopted: Option<XdpAttachment>,
    ) -> Self {
        let mut failure_before = None;
        match (before, link) {
            (Some(Self::Attached(index, attached)), Some(link)) if index == link.index => {
                return Self::Attached(index, attached);
            }
            (Some(Self::Attached(_, attached)), _) => attached.attachment.detach(),
            (Some(Self::Failed(reason)), _) => failure_before = Some(reason),
            (Some(Self::Loading(reason)), _) => failure_before = reason,
            (Some(Self::Unsuited), Some(link)) if link.address.is_none() => return Self::Unsuited,
            (Some(Self::Unsuited | Self::Refused(_) | Self::Absent) | None, _) => {}
        }
        let Some(mut link) = link.cloned() else {
            return Self::Absent;
        };
        let mut attached = None;
        if let Some(attachment) = adopted {
            attached = keep(attachment, &link, mode);
            if attached.is_none() {
                wait_until_free(&mut link);
            }
        }
        let attached = match attached {
            Some(attached) => Ok(attached),
            None if link.address.is_none() => {
                warn!(interface = %name, error = UNSUITED, "no XDP program: TC does all");
                return Self::Unsuited;
            }
            None => match object.prepare(XDP) {
                Readiness::Ready => {
                    xdp::attach(object, &link, mode).map_err(|error| error.to_string())
                }
                Readiness::Loading => return Self::Loading(failure_before),
                Readiness::Refused(reason) => Err(reason),
            },
        };
        match attached {
            Ok(attached) => {
                let mode = attached.running.name();
                match &attached.note {
                    None => info!(interface = %name, mode, "XDP program attached"),
                    Some(note) => warn!(interface = %name, mode, %note, "XDP program attached"),
                }
                Self::Attached(link.index, attached)
            }
            Err(reason) => {
                if failure_before.as_ref() != Some(&reason) {
                    warn!(interface = %name, error = %reason, "no XDP program: TC does all");
                }
                Self::Failed(reason)
            }
        }
    }

    /// The state of an interface after `before` that must not have the program, for this reason.
    pub(crate) fn refused(
        before: Option<Self>,
        link: &Link,
        adopted: Option<XdpAttachment>,
        reason: String,
    ) -> Self {
        let is_known = matches!(&before, Some(Self::Refused(known)) if *known == reason);
        if !is_known {
            warn!(interface = %link.name, error = %reason, "no XDP program: TC does all");
        }
        let attached = match before {
            Some(Self::Attached(_, attached)) => Some(attached.attachment),
            _ => None,
        };
        for attachment in attached.into_iter().chain(adopted) {
            attachment.detach();
            // It would be taken for another one as soon as the reason is gone.
            wait_until_free(&mut link.clone());
        }
        Self::Refused(reason)
    }

    /// The index of the interface, if the program is on it.
    pub(crate) const fn index(&self) -> Option<u32> {
        match self {
            Self::Attached(index, _) => Some(*index),
            Self::Absent
            | Self::Loading(_)
            | Self::Failed(_)
            | Self::Unsuited
            | Self::Refused(_) => None,
        }
    }

    /// Returns whether the program is in its driver.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self, Self::Attached(_, attached) if attached.running == Running::Native)
    }

    /// As it is shown.
    pub(crate) fn shown(&self) -> UplinkState {
        match self {
            Self::Absent => UplinkState::Absent,
            Self::Loading(_) => UplinkState::Loading,
            Self::Attached(index, attached) => UplinkState::Attached {
                index: *index,
                native: attached.running == Running::Native,
                note: attached.note.clone(),
            },
            Self::Failed(reason) | Self::Refused(reason) => UplinkState::Failed(reason.clone()),
            Self::Unsuited => UplinkState::Failed(UNSUITED.to_owned()),
        }
    }

    /// The reason for which the kernel refused the program, if it did.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match self {
            Self::Failed(reason) | Self::Loading(Some(reason)) => Some(reason),
            Self::Absent
            | Self::Loading(None)
            | Self::Attached(..)
            | Self::Unsuited
            | Self::Refused(_) => None,
        }
    }
}

/// Keeps the program that an earlier agent attached, if it runs where `mode` wants it; else detaches it.
fn keep(attachment: XdpAttachment, link: &Link, mode: XdpMode) -> Option<Attached> {
    let running = link.xdp.map(|xdp| xdp.running);
    let (running, note) = match (mode, running) {
        (XdpMode::Auto, Some(Running::Generic)) => {
            let note = "not in the driver: an earlier agent found that it cannot";
            (Running::Generic, Some(note.to_owned()))
        }
        (XdpMode::Auto | XdpMode::Native, Some(Running::Native)) => (Running::Native, None),
        (XdpMode::Generic, Some(Running::Generic)) => (Running::Generic, None),
        _ => {
            attachment.detach();
            return None;
        }
    };
    Some(Attached {
        attachment,
        running,
        note,
    })
}

/// Time that the kernel may take to detach a program of ours, and the interval between two looks at it.
const DETACHING: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// Waits until the interface has no program any more, which was detached: the kernel frees a link a
/// moment after its last user is gone. Makes `link` what it is then.
fn wait_until_free(link: &mut Link) {
    let end = Instant::now() + DETACHING;
    loop {
        let now = links::list().unwrap_or_default();
        match now.into_iter().find(|now| now.index == link.index) {
            Some(now) => *link = now,
            None => return,
        }
        if link.xdp.is_none() || Instant::now() >= end {
            return;
        }
        thread::sleep(LOOK);
    }
}
