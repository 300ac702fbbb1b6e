//! The programs on the interfaces: on exactly those that are wanted, as they come and go.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::{Duration, Instant},
};

use nix::net::if_::if_nametoindex;
use tracing::{info, warn};

use crate::{
    attach::{
        attachment::{Attachment, adopt, attach},
        expedite::Expedited,
        filter_watch::RemovedFilters,
        hook::Hook,
        link_layer::LinkLayer,
    },
    error::DatapathError,
    object::{aside::Readiness, loaded::Loaded},
    pins::held::Repair,
};

/// So many interfaces are attached at once, whatever it takes: an operator who named a few of them finds
/// them attached. Grace periods are not worth a setting of the host for these.
const AT_ONCE: usize = 8;

/// Time for which attaching may hold up all other work, if there are more.
const PIECE: Duration = Duration::from_millis(20);

/// Progress of an interface that is to have the programs.
///
/// ```text
/// Absent  -> Pending  -> Attached(index)  the interface appears; its turn comes
/// Pending -> Loading  -> Pending          the kernel verifies its programs in a thread
/// Pending -> Failed   -> Pending          the kernel refuses; tried again when any interface changes
/// any     -> Absent                       it goes; one that returns has another index
/// ```
#[derive(Debug)]
enum State {
    Absent,
    /// It exists, and waits for its turn; it may have failed before, for this reason.
    Pending(Option<String>),
    /// It waits for its programs, which the kernel verifies; it may have failed before, for this reason.
    Loading(Option<String>),
    Attached(Programs),
    Failed(String),
}

/// State of an interface that is to have the programs, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceState {
    /// There is none of this name, or that the pattern means: it is waited for.
    Absent,
    /// It is about to get the programs.
    Attaching,
    /// The kernel verifies its programs, which are the first of their kind.
    Loading,
    /// The programs run on it.
    Attached {
        /// The kernel's index of it.
        index: u32,
    },
    /// The kernel refused the programs, for this reason.
    Failed(String),
}

/// An interface that is to have the programs, or a pattern that means none, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// The pattern that it was chosen by; `None` if that was its name.
    pub pattern: Option<String>,
    /// Its state.
    pub state: InterfaceState,
}

/// The programs on one interface.
#[derive(Debug)]
struct Programs {
    /// The interface's index: the same name with another index is another interface.
    index: u32,
    hooks: Vec<(Hook, Attachment)>,
}

impl Programs {
    /// Has a hook run the program that `object` has for it now, if that is loaded. Returns whether it is.
    fn replace(
        &mut self,
        object: &mut Loaded,
        interface: &str,
        hook: Hook,
    ) -> Result<bool, DatapathError> {
        let program = hook.program(LinkLayer::of_interface(interface)?);
        if object.prepare(program) != Readiness::Ready {
            return Ok(false);
        }
        for (at, attachment) in &mut self.hooks {
            if *at == hook {
                attachment.replace(object, (self.index, hook), program)?;
            }
        }
        Ok(true)
    }

    /// Attaches those again whose filters are gone.
    fn restore(&mut self, object: &mut Loaded, interface: &str) -> Result<(), DatapathError> {
        for (hook, attachment) in &mut self.hooks {
            if attachment.is_removed(self.index, *hook) {
                attachment.forget();
                *attachment = attach(object, interface, self.index, *hook)?;
                warn!(%interface, hook = hook.name(), "another program has removed the filter: attached again");
            }
        }
        Ok(())
    }

    fn detach(self) {
        for (_, attachment) in self.hooks {
            attachment.detach();
        }
    }
}

/// The interfaces that have the programs.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    interfaces: BTreeMap<String, State>,
    /// Programs that an earlier agent left attached, until it is known whether they are wanted.
    adopted: BTreeMap<(u32, Hook), Attachment>,
    /// Number of interfaces that wait for their turn.
    waiting: usize,
}

impl Attachments {
    /// Takes over what an earlier agent pinned: its links now run our programs, each replaced in
    /// one step. Nothing is detached before [`Self::reconcile`].
    pub(crate) fn adopt(object: &mut Loaded) -> Self {
        Expedited::end_left_over();
        Self {
            interfaces: BTreeMap::new(),
            adopted: adopt(object),
            waiting: 0,
        }
    }

    /// Attaches the programs to those of `wanted` that exist and do not have them. Detaches them
    /// from every other interface, but as long as not `all` that is wanted is known, what an
    /// earlier agent attached stays. An interface that does not exist is waited for: this is
    /// called again whenever interfaces change. If there are many, most of them are left to
    /// [`Self::attach_more`]. Each transition is logged once.
    pub(crate) fn reconcile(&mut self, object: &mut Loaded, wanted: &BTreeSet<String>, all: bool) {
        let gone: Vec<_> = self
            .interfaces
            .extract_if(.., |name, _| !wanted.contains(name))
            .collect();
        let leftover = if all { self.adopted.len() } else { 0 };
        let expedited = (gone.len() + leftover > AT_ONCE).then(Expedited::begin);
        for (name, state) in gone {
            if let State::Attached(programs) = state {
                programs.detach();
                info!(interface = %name, "detached");
            }
        }
        let mut adopted = Vec::new();
        for name in wanted {
            let before = self.interfaces.remove(name);
            let (now, index) = observe(name, before);
            self.interfaces.insert(name.clone(), now);
            if let Some(index) = index
                && Hook::ALL
                    .iter()
                    .any(|hook| self.adopted.contains_key(&(index, *hook)))
            {
                adopted.push(name);
            }
        }
        // What an earlier agent attached costs next to nothing, and has to be known before the rest
        // is detached.
        for name in adopted {
            self.attach_one(object, name);
        }
        if all {
            for ((index, hook), attachment) in mem::take(&mut self.adopted) {
                attachment.detach();
                info!(
                    index,
                    hook = hook.name(),
                    "detached what an earlier agent had attached"
                );
            }
        }
        drop(expedited);
        self.attach_piece(object, AT_ONCE);
    }

    /// Has every hook run the program that `object` has for it now, each replaced in one step: the way back first. A
    /// hook whose program the kernel has not verified yet keeps its own. Returns how many were replaced, and how many
    /// could not be.
    pub(crate) fn replace(&mut self, object: &mut Loaded) -> (usize, usize) {
        let (mut count, mut failures) = (0, 0);
        for hook in Hook::ALL {
            for (name, state) in &mut self.interfaces {
                let State::Attached(programs) = state else {
                    continue;
                };
                let replaced = programs.replace(object, name, hook);
                match replaced {
                    Ok(is_replaced) => count += usize::from(is_replaced),
                    Err(error) => {
                        warn!(interface = %name, hook = hook.name(), %error, "a program is not replaced");
                        failures += 1;
                    }
                }
            }
        }
        (count, failures)
    }

    /// Attaches filters again that were removed from these interfaces.
    pub(crate) fn restore(&mut self, object: &mut Loaded, removed: &RemovedFilters) {
        for (name, state) in &mut self.interfaces {
            let State::Attached(programs) = state else {
                continue;
            };
            let index = programs.index;
            if !removed.any && !removed.interfaces.contains(&index) {
                continue;
            }
            // One that is gone, or about to be, is seen as such.
            if if_nametoindex(name.as_str()) != Ok(index) {
                continue;
            }
            if let Err(error) = programs.restore(object, name) {
                let reason = error.to_string();
                warn!(interface = %name, index, error = %reason, "cannot attach");
                if let State::Attached(programs) = mem::replace(state, State::Failed(reason)) {
                    programs.detach();
                }
            }
        }
    }

    /// Pins those links again that are not pinned any more.
    pub(crate) fn keep_pins(&self, repair: &mut Repair) {
        let attached = self.interfaces.values().filter_map(|state| match state {
            State::Attached(programs) => Some(&programs.hooks),
            State::Absent | State::Pending(_) | State::Loading(_) | State::Failed(_) => None,
        });
        let attached = attached.flatten().map(|(_, attachment)| attachment);
        for attachment in attached.chain(self.adopted.values()) {
            attachment.keep_pin(repair);
        }
    }

    /// Returns the number of interfaces that wait for their turn to be attached.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Attaches the programs to some more of the interfaces that wait for them.
    pub(crate) fn attach_more(&mut self, object: &mut Loaded) {
        self.attach_piece(object, 1);
    }

    /// Attaches at least so many interfaces, as far as there are any, and then others until it has
    /// taken its time.
    fn attach_piece(&mut self, object: &mut Loaded, at_least: usize) {
        let start = Instant::now();
        let waiting = |(name, state): (&String, &State)| {
            matches!(state, State::Pending(_)).then(|| name.clone())
        };
        let mut pending = self
            .interfaces
            .iter()
            .filter_map(waiting)
            .collect::<Vec<_>>();
        let _expedited = (pending.len() > AT_ONCE).then(Expedited::begin);
        pending.reverse();
        let mut attached = 0;
        while attached < at_least || start.elapsed() < PIECE {
            let Some(name) = pending.pop() else { break };
            self.attach_one(object, &name);
            attached += 1;
        }
        self.waiting = pending.len();
    }

    /// Attaches the programs to an interface whose turn has come.
    fn attach_one(&mut self, object: &mut Loaded, name: &str) {
        let failure_before = match self.interfaces.remove(name) {
            Some(State::Pending(failure_before)) => failure_before,
            Some(other) => {
                self.interfaces.insert(name.to_owned(), other);
                return;
            }
            None => return,
        };
        let now = match if_nametoindex(name) {
            Ok(index) => self.attached(object, name, index, failure_before),
            Err(_) => {
                warn!(interface = %name, "gone: waiting for its return");
                State::Absent
            }
        };
        self.interfaces.insert(name.to_owned(), now);
    }

    /// The kernel's indexes of the interfaces that have the programs.
    pub(crate) fn indexes(&self) -> BTreeSet<u32> {
        let attached = self.interfaces.values().filter_map(|state| match state {
            State::Attached(programs) => Some(programs.index),
            State::Absent | State::Pending(_) | State::Loading(_) | State::Failed(_) => None,
        });
        attached.collect()
    }

    /// Every interface that is to have the programs, by name.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&str, InterfaceState)> {
        self.interfaces.iter().map(|(name, state)| {
            let state = match state {
                State::Absent => InterfaceState::Absent,
                State::Pending(_) => InterfaceState::Attaching,
                State::Loading(_) => InterfaceState::Loading,
                State::Attached(programs) => InterfaceState::Attached {
                    index: programs.index,
                },
                State::Failed(reason) => InterfaceState::Failed(reason.clone()),
            };
            (name.as_str(), state)
        })
    }

    /// The interfaces whose programs the kernel refused, by name, with the reason; also while they wait to be tried again.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&str, &str)> {
        let interfaces = self.interfaces.iter();
        interfaces.filter_map(|(name, state)| match state {
            State::Failed(reason) | State::Pending(Some(reason)) | State::Loading(Some(reason)) => {
                Some((name.as_str(), reason.as_str()))
            }
            State::Pending(None) | State::Loading(None) | State::Absent | State::Attached(_) => {
                None
            }
        })
    }

    /// The state of interface `name` once it was tried to attach the programs.
    fn attached(
        &mut self,
        object: &mut Loaded,
        name: &str,
        index: u32,
        failure_before: Option<String>,
    ) -> State {
        let attached = match self.readiness(object, name, index) {
            Readiness::Ready => {
                let attached = self.attach(object, name, index);
                attached.map_err(|error| error.to_string())
            }
            Readiness::Loading => return State::Loading(failure_before),
            Readiness::Refused(reason) => Err(reason),
        };
        match attached {
            Ok(programs) => {
                info!(interface = %name, index, "attached");
                State::Attached(programs)
            }
            Err(reason) => {
                if failure_before.as_ref() != Some(&reason) {
                    warn!(interface = %name, index, error = %reason, "cannot attach");
                }
                State::Failed(reason)
            }
        }
    }

    /// Returns whether the programs for the interface are loaded. What an earlier agent attached has them.
    fn readiness(&self, object: &mut Loaded, name: &str, index: u32) -> Readiness {
        // Of another link layer, attaching reports why there is none.
        let Ok(layer) = LinkLayer::of_interface(name) else {
            return Readiness::Ready;
        };
        let lacking = Hook::ALL.into_iter();
        let mut lacking = lacking
            .filter(|hook| !self.adopted.contains_key(&(index, *hook)))
            .map(|hook| object.prepare(hook.program(layer)))
            .filter(|readiness| *readiness != Readiness::Ready);
        lacking.next().unwrap_or(Readiness::Ready)
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
                Ok(attachment) => programs.hooks.push((hook, attachment)),
                Err(error) => {
                    programs.detach();
                    return Err(error);
                }
            }
        }
        Ok(programs)
    }
}

/// The state of interface `name` after `before`, as the kernel now has it, and its index; nothing
/// is attached yet.
fn observe(name: &str, before: Option<State>) -> (State, Option<u32>) {
    let index = if_nametoindex(name).ok();
    let mut failure_before = None;
    match before {
        Some(State::Attached(programs)) if index == Some(programs.index) => {
            return (State::Attached(programs), index);
        }
        Some(State::Attached(programs)) => {
            programs.detach();
            if index.is_none() {
                warn!(interface = %name, "gone: waiting for its return");
            }
        }
        Some(State::Failed(_) | State::Pending(_) | State::Loading(_)) | None
            if index.is_none() =>
        {
            warn!(interface = %name, "absent: waiting for it");
        }
        Some(State::Failed(reason)) => failure_before = Some(reason),
        Some(State::Pending(reason) | State::Loading(reason)) => failure_before = reason,
        Some(State::Absent) | None => {}
    }
    match index {
        Some(_) => (State::Pending(failure_before), index),
        None => (State::Absent, None),
    }
}
