//! The programs on the interfaces: on exactly those that are wanted, as they come and go.

use std::collections::{BTreeMap, BTreeSet};

use aya::{
    programs::{
        LinkOrder, ProgramError, SchedClassifier, TcAttachType,
        tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcError, TcHandle},
    },
    util::KernelVersion,
};
use nix::net::if_::if_nametoindex;
use tracing::{info, warn};

use super::{Datapath, DatapathError};

/// The first kernel with TCX links; older ones attach through a clsact qdisc.
const TCX_SINCE: KernelVersion = KernelVersion::new(6, 6, 0);

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

/// The programs on one interface; dropping them detaches them.
#[derive(Debug)]
struct Programs {
    /// The interface's index: the same name with another index is another interface.
    index: u32,
    _ingress: SchedClassifierLink,
    _egress: SchedClassifierLink,
}

/// Which interfaces have the programs.
#[derive(Debug, Default)]
pub struct Attachments {
    interfaces: BTreeMap<String, State>,
}

impl Attachments {
    /// Attaches the programs to those of `wanted` that exist and do not have them, detaches them
    /// from every other interface. An interface that does not exist is waited for: this is called
    /// again whenever interfaces change. Each transition is logged once.
    pub fn reconcile(&mut self, datapath: &mut Datapath, wanted: &BTreeSet<String>) {
        self.interfaces.retain(|name, state| {
            let keep = wanted.contains(name);
            if !keep && matches!(state, State::Attached(_)) {
                info!(interface = %name, "detached");
            }
            keep
        });
        for name in wanted {
            let before = self.interfaces.remove(name);
            let now = next_state(datapath, name, before);
            self.interfaces.insert(name.clone(), now);
        }
    }

    /// Detaches the programs from every interface.
    pub fn clear(&mut self) {
        self.interfaces.clear();
    }
}

/// The state of interface `name` after `before`, as the kernel now has it.
fn next_state(datapath: &mut Datapath, name: &str, before: Option<State>) -> State {
    let Ok(index) = if_nametoindex(name) else {
        match before {
            Some(State::Absent) => {}
            Some(State::Attached(_)) => warn!(interface = %name, "gone: waiting for its return"),
            Some(State::Failed(_)) | None => warn!(interface = %name, "absent: waiting for it"),
        }
        return State::Absent;
    };
    let failure_before = match before {
        Some(State::Attached(programs)) if programs.index == index => {
            return State::Attached(programs);
        }
        Some(State::Failed(reason)) => Some(reason),
        _ => None,
    };
    match attach(datapath, name, index) {
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

fn attach(datapath: &mut Datapath, name: &str, index: u32) -> Result<Programs, DatapathError> {
    let tcx = KernelVersion::current().is_ok_and(|version| version >= TCX_SINCE);
    let options = if tcx {
        // Ahead of a CNI's own programs, which then see translated packets.
        || TcAttachOptions::TcxOrder(LinkOrder::first())
    } else {
        match tc::qdisc_add_clsact(name) {
            Ok(()) | Err(TcError::AlreadyAttached) => {}
            Err(source) => {
                return Err(DatapathError::Program {
                    name: Datapath::INGRESS,
                    source: source.into(),
                });
            }
        }
        || {
            TcAttachOptions::Netlink(NlOptions {
                priority: 1,
                handle: TcHandle::AUTO_ASSIGN,
                classid: None,
            })
        }
    };
    let mut attach = |program: &'static str, hook| {
        let classifier = datapath.program(program)?;
        attach_one(classifier, name, hook, options()).map_err(|source| DatapathError::Program {
            name: program,
            source,
        })
    };
    Ok(Programs {
        index,
        // The way back first: no request goes out whose reply would not be understood.
        _egress: attach(Datapath::EGRESS, TcAttachType::Egress)?,
        _ingress: attach(Datapath::INGRESS, TcAttachType::Ingress)?,
    })
}

fn attach_one(
    classifier: &mut SchedClassifier,
    interface: &str,
    hook: TcAttachType,
    options: TcAttachOptions,
) -> Result<SchedClassifierLink, ProgramError> {
    let link = classifier.attach_with_options(interface, hook, options)?;
    classifier.take_link(link)
}
