//! The programs on the interfaces: on exactly those that are wanted, as they come and go.

use std::collections::{BTreeMap, BTreeSet};

use nix::net::if_::if_nametoindex;
use tracing::{info, warn};

use crate::{
    attach::{
        attachment::{Attachment, adopt, attach},
        hook::Hook,
    },
    error::DatapathError,
    object::loaded::Loaded,
};

/// What became of an interface that is to have the programs.
///
/// ```text
/// Absent <-> Attached(index)      the interface appears, goes, returns with another index
/// Absent  -> Failed -> Attached   the kernel refuses; tried again when any interface changes
/// ```
#[derive(Debug)]
enum State {
    Absent,
    Attached(Programs),
    Failed(String),
}

/// How an interface that is to have the programs is, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceState {
    /// There is none of this name: it is waited for.
    Absent,
    /// The programs run on it.
    Attached {
        /// The kernel's index of it.
        index: u32,
    },
    /// The kernel refused the programs, for this reason.
    Failed(String),
}

/// The programs on one interface.
#[derive(Debug)]
struct Programs {
    /// The interface's index: the same name with another index is another interface.
    index: u32,
    hooks: Vec<Attachment>,
}

impl Programs {
    fn detach(self) {
        self.hooks.into_iter().for_each(Attachment::detach);
    }
}

/// Which interfaces have the programs.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    interfaces: BTreeMap<String, State>,
    /// What an earlier agent left attached, until it is known whether that is wanted.
    adopted: BTreeMap<(u32, Hook), Attachment>,
}

impl Attachments {
    /// Takes over what an earlier agent pinned: its links now run our programs, each replaced in
    /// one step. Nothing is detached before [`Self::reconcile`] is told to.
    pub(crate) fn adopt(object: &mut Loaded) -> Self {
        Self {
            interfaces: BTreeMap::new(),
            adopted: adopt(object),
        }
    }

    /// Attaches the programs to those of `wanted` that exist and do not have them. Detaches them
    /// from every other interface, but as long as not `all` that is wanted is known, what an
    /// earlier agent attached stays. An interface that does not exist is waited for: this is
    /// called again whenever interfaces change. Each transition is logged once.
    pub(crate) fn reconcile(&mut self, object: &mut Loaded, wanted: &BTreeSet<String>, all: bool) {
        let gone = self
            .interfaces
            .extract_if(.., |name, _| !wanted.contains(name));
        for (name, state) in gone {
            if let State::Attached(programs) = state {
                programs.detach();
                info!(interface = %name, "detached");
            }
        }
        for name in wanted {
            let before = self.interfaces.remove(name);
            let now = self.next_state(object, name, before);
            self.interfaces.insert(name.clone(), now);
        }
        if all {
            for ((index, hook), attachment) in std::mem::take(&mut self.adopted) {
                attachment.detach();
                info!(
                    index,
                    hook = hook.name(),
                    "detached what an earlier agent had attached"
                );
            }
        }
    }

    /// The kernel's indexes of the interfaces that have the programs.
    pub(crate) fn indexes(&self) -> BTreeSet<u32> {
        let attached = self.interfaces.values().filter_map(|state| match state {
            State::Attached(programs) => Some(programs.index),
            State::Absent | State::Failed(_) => None,
        });
        attached.collect()
    }

    /// Every interface that is to have the programs, by name.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&str, InterfaceState)> {
        self.interfaces.iter().map(|(name, state)| {
            let state = match state {
                State::Absent => InterfaceState::Absent,
                State::Attached(programs) => InterfaceState::Attached {
                    index: programs.index,
                },
                State::Failed(reason) => InterfaceState::Failed(reason.clone()),
            };
            (name.as_str(), state)
        })
    }

    /// The state of interface `name` after `before`, as the kernel now has it.
    fn next_state(&mut self, object: &mut Loaded, name: &str, before: Option<State>) -> State {
        let index = if_nametoindex(name).ok();
        let mut failure_before = None;
        match before {
            Some(State::Attached(programs)) if index == Some(programs.index) => {
                return State::Attached(programs);
            }
            Some(State::Attached(programs)) => {
                programs.detach();
                if index.is_none() {
                    warn!(interface = %name, "gone: waiting for its return");
                }
            }
            Some(State::Failed(_)) | None if index.is_none() => {
                warn!(interface = %name, "absent: waiting for it");
            }
            Some(State::Failed(reason)) => failure_before = Some(reason),
            Some(State::Absent) | None => {}
        }
        let Some(index) = index else {
            return State::Absent;
        };
        match self.attach(object, name, index) {
            Ok(programs) => {
                info!(interface = %name, index, "attached");
                State::Attached(programs)
            }
            Err(error) => {
                let reason = error.to_string();
                if failure_before.as_ref() != Some(&reason) {
                    warn!(interface = %name, index, error = %reason, "cannot attach");
                }
                State::Failed(reason)
            }
        }
    }

    fn attach(
        &mut self,
        object: &mut Loaded,
        name: &str,
        index: u32,
    ) -> Result<Programs, DatapathError> {
        let mut programs = Programs {
            index,
            hooks: Vec::new(),
        };
        for hook in Hook::ALL {
            let attachment = match self.adopted.remove(&(index, hook)) {
                Some(attachment) => Ok(attachment),
                None => attach(object, name, index, hook),
            };
            match attachment {
                Ok(attachment) => programs.hooks.push(attachment),
                Err(error) => {
                    programs.detach();
                    return Err(error);
                }
            }
        }
        Ok(programs)
    }
}
