//! The way to a hook before TCX (Linux 6.6): a filter of the interface's clsact qdisc runs the
//! program.
//!
//! The kernel keeps a filter until it is removed, so it outlives the agent without a pin,
//! and there is nothing to pin. It always has the same place, where the next agent finds it and
//! replaces its program in one step. A symbolic link among the pinned links, the *note*, shows that
//! it is there; it is made before the filter and removed after it.
//!
//! The qdisc itself stays: it costs next to nothing, and others may have filters on it.

use std::{
    fs, io, mem,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use aya::programs::{
    Link, ProgramError, SchedClassifier,
    tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcError, TcHandle},
};
use nix::net::if_::{if_indextoname, if_nametoindex};
use rtnetlink::packet_route::{
    RouteNetlinkMessage,
    tc::{TcAttribute, TcHandle as QdiscHandle, TcMessage},
};

use crate::{
    attach::hook::Hook,
    netlink::dump::get,
    pins::{
        directory::remove,
        error::PinError,
        held::{Repair, put},
    },
};

/// Ahead of a CNI's own programs, which then see translated packets.
const PRIORITY: u16 = 1;

/// Handle that distinguishes our filter from others of this priority.
const HANDLE: TcHandle = TcHandle::new(0x5348, 0x554e);

/// A filter that outlives the agent.
#[derive(Debug)]
pub(crate) struct Filter {
    index: u32,
    hook: Hook,
    note: PathBuf,
    /// Target of the note: the pin of the program.
    target: PathBuf,
}

impl Filter {
    /// Attaches a program, by its name, to a hook of an interface, by its name and index, and
    /// leaves a note of it.
    pub(crate) fn attach(
        (name, program): (&str, &mut SchedClassifier),
        (interface, index): (&str, u32),
        hook: Hook,
        note: PathBuf,
    ) -> Result<Self, ProgramError> {
        let target = target(name);
        remove(&note)
            .map_err(io::Error::other)
            .and_then(|()| symlink(&target, &note))?;
        match attach(program, interface, hook) {
            Ok(link) => {
                // It would detach the program at its end.
                mem::forget(link);
                Ok(Self {
                    index,
                    hook,
                    note,
                    target,
                })
            }
            Err(error) => {
                drop(fs::remove_file(&note));
                Err(error)
            }
        }
    }

    /// The filter that an earlier agent noted, with our program, by its name, in place of its own.
    pub(crate) fn adopt(
        (program_name, program): (&str, &mut SchedClassifier),
        index: u32,
        hook: Hook,
        note: PathBuf,
    ) -> Result<Self, ProgramError> {
        mem::forget(replace(program, &name(index)?, hook)?);
        Ok(Self {
            index,
            hook,
            note,
            target: target(program_name),
        })
    }

    /// Makes the note again if it is gone.
    pub(crate) fn keep_note(&self, repair: &mut Repair) {
        let Self { note, target, .. } = self;
        if fs::read_link(note).is_ok_and(|there| there == *target) {
            return;
        }
        let made = put(note, |new| symlink(target, new));
        repair.note(note, made.map(|()| true));
    }

    /// Returns the path of its note.
    pub(crate) fn note(&self) -> &Path {
        &self.note
    }

    /// Removes the filter and its note.
    pub(crate) fn detach(self) -> Result<(), PinError> {
        let Self {
            index, hook, note, ..
        } = self;
        detach(index, hook).map_err(PinError::object("detaching the program of", &note))?;
        remove(&note)
    }
}

/// Returns the target of the note of a filter with the program of this name.
fn target(program: &str) -> PathBuf {
    Path::new("../programs").join(program)
}

/// Returns whether a path among the pinned links is the note of a filter.
pub(crate) fn is_note(path: &Path) -> bool {
    path.is_symlink()
}

/// Attaches the program of `hook` to an interface, until the link is dropped. If an agent that was
/// killed has left its own there, it is replaced.
pub(crate) fn attach(
    program: &mut SchedClassifier,
    interface: &str,
    hook: Hook,
) -> Result<SchedClassifierLink, ProgramError> {
    match tc::qdisc_add_clsact(interface) {
        Err(error) if errno(&error) == Some(libc::EEXIST) => require_clsact(interface)?,
        added => added?,
    }
    let options = TcAttachOptions::Netlink(NlOptions {
        priority: PRIORITY,
        handle: HANDLE,
        classid: None,
    });
    match program.attach_with_options(interface, hook.attach_type(), options) {
        Ok(link) => program.take_link(link),
        Err(ProgramError::TcError(error)) if errno(&error) == Some(libc::EEXIST) => {
            replace(program, interface, hook)
        }
        Err(error) => Err(error),
    }
}

/// Checks that the qdisc in the place of clsact is one. A qdisc `ingress` has that place too, and no egress: both
/// programs would be in one list of filters, where the second one replaces the first.
fn require_clsact(interface: &str) -> io::Result<()> {
    let index = if_nametoindex(interface)?.cast_signed();
    let mut request = TcMessage::with_index(index);
    request.header.parent = QdiscHandle::CLSACT;
    let qdisc = match get(RouteNetlinkMessage::GetQueueDiscipline(request)) {
        Ok(RouteNetlinkMessage::NewQueueDiscipline(qdisc)) => qdisc,
        // It has gone meanwhile, which attaching reports.
        Ok(_) => return Ok(()),
        Err(error) if is_absent(error.raw_os_error()) => return Ok(()),
        Err(error) => return Err(error),
    };
    match kind_of(qdisc.attributes).filter(|kind| kind != "clsact") {
        Some(kind) => Err(io::Error::other(format!(
            "its qdisc `{kind}` has the place of clsact, which the programs need before Linux 6.6: remove it \
             (tc qdisc del dev {interface} {kind}), and what adds it, such as the CNI plugin bandwidth"
        ))),
        None => Ok(()),
    }
}

/// Returns the kind of the qdisc with these attributes.
pub(super) fn kind_of(attributes: Vec<TcAttribute>) -> Option<String> {
    attributes
        .into_iter()
        .find_map(|attribute| match attribute {
            TcAttribute::Kind(kind) => Some(kind),
            _ => None,
        })
}

/// Returns the parent of a hook's filters.
pub(crate) const fn parent(hook: Hook) -> QdiscHandle {
    QdiscHandle {
        major: QdiscHandle::CLSACT.major,
        minor: match hook {
            Hook::Egress => QdiscHandle::MIN_EGRESS,
            Hook::Ingress => QdiscHandle::MIN_INGRESS,
        },
    }
}

/// Returns whether a filter is ours. The kernel lists one of each priority without a handle besides.
pub(crate) fn is_ours(filter: &TcMessage) -> bool {
    let handle = u32::from(filter.header.handle);
    filter.header.info >> 16 == u32::from(PRIORITY) && (handle == 0 || handle == u32::from(HANDLE))
}

/// Returns whether our filter is at a hook of an interface, as far as the kernel reports it.
pub(crate) fn is_there(index: u32, hook: Hook) -> bool {
    let mut request = TcMessage::with_index(index.cast_signed());
    request.header.parent = parent(hook);
    request.header.handle = u32::from(HANDLE).into();
    // Its protocol, as the wire has it.
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    request.header.info = u32::from(PRIORITY) << 16 | u32::from(protocol);
    match get(RouteNetlinkMessage::GetTrafficFilter(request)) {
        Ok(_) => true,
        Err(error) => !is_absent(error.raw_os_error()),
    }
}

/// Removes our filter from an interface of this network namespace; none there is no error.
pub(crate) fn detach(index: u32, hook: Hook) -> Result<(), ProgramError> {
    let link = name(index).and_then(|name| link(&name, hook));
    match link.map_err(ProgramError::IOError).and_then(Link::detach) {
        Err(error) if is_gone(&error) => Ok(()),
        result => result,
    }
}

/// Returns whether an error means that a filter is not there, or its interface.
pub(crate) fn is_gone(error: &ProgramError) -> bool {
    match error {
        ProgramError::NetlinkError(error) => is_absent(error.raw_os_error()),
        ProgramError::TcError(error) => is_absent(errno(error)),
        ProgramError::IOError(error) => is_absent(error.raw_os_error()),
        _ => false,
    }
}

fn replace(
    program: &mut SchedClassifier,
    interface: &str,
    hook: Hook,
) -> Result<SchedClassifierLink, ProgramError> {
    let link = program.attach_to_link(link(interface, hook)?)?;
    program.take_link(link)
}

/// Our filter on an interface, as it would be if it is there.
fn link(interface: &str, hook: Hook) -> io::Result<SchedClassifierLink> {
    SchedClassifierLink::attached(interface, hook.attach_type(), PRIORITY, HANDLE, None)
}

fn name(index: u32) -> io::Result<String> {
    let name = if_indextoname(index)?;
    // What nix makes of the null pointer that is returned for an index that nothing has.
    if name.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    name.into_string().map_err(io::Error::other)
}

fn errno(error: &TcError) -> Option<i32> {
    match error {
        TcError::NetlinkError(error) => error.raw_os_error(),
        TcError::IoError(error) => error.raw_os_error(),
        _ => None,
    }
}

/// `EINVAL` is the answer if there is no clsact qdisc.
fn is_absent(errno: Option<i32>) -> bool {
    matches!(
        errno,
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EINVAL)
    )
}
