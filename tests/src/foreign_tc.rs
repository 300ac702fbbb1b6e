//! Another owner's TC program, which drops every packet.

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use anyhow::{Context as _, Result};
use nix::libc;

use crate::{
    bpf::{Program, bpf, call},
    namespace::Namespace,
};

/// `BPF_OBJ_PIN` of `linux/bpf.h`.
const OBJ_PIN: libc::c_long = 6;
/// `BPF_LINK_CREATE`, `BPF_PROG_TYPE_SCHED_CLS` and `TCX_DROP` of `linux/bpf.h`.
const LINK_CREATE: libc::c_long = 28;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const TCX_DROP: u32 = 2;

/// Hook of an interface, as `linux/bpf.h` numbers it (`BPF_TCX_INGRESS`, `BPF_TCX_EGRESS`): since Linux 6.6.
#[derive(Debug, Clone, Copy)]
pub enum TcxHook {
    /// Packets that come in by the interface.
    Ingress = 46,
    /// Packets that leave by it.
    Egress = 47,
}

/// The part of `union bpf_attr` for creating a link.
#[repr(C)]
#[derive(Default)]
struct Create {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

/// The program.
const DROPPING: Program<'_> = Program {
    kind: PROG_TYPE_SCHED_CLS,
    name: "policy",
    result: TCX_DROP,
    attach_type: 0,
    target: 0,
};

/// The part of `union bpf_attr` for pinning an object.
#[repr(C)]
struct Pin {
    path: u64,
    object: u32,
    flags: u32,
}

/// Adds the program as a filter of this priority to a hook, `ingress` or `egress`, of an interface that has the clsact
/// qdisc. The path is one on a bpf file system where nothing is pinned.
///
/// # Errors
///
/// If the kernel refuses.
pub fn add_dropping_filter(
    namespace: &Namespace,
    (interface, hook): (&str, &str),
    priority: &str,
    path: &Path,
) -> Result<()> {
    let program = DROPPING.load()?;
    let name = CString::new(path.as_os_str().as_bytes())?;
    let mut pin = Pin {
        path: name.as_ptr().expose_provenance() as u64,
        object: program.as_raw_fd().cast_unsigned(),
        flags: 0,
    };
    call(OBJ_PIN, &mut pin).with_context(|| format!("cannot pin {}", path.display()))?;
    let path = path.to_str().context("a path that is no text")?;
    let added = namespace.run_with_input(
        "tc",
        &[
            "filter",
            "add",
            "dev",
            interface,
            hook,
            "pref",
            priority,
            "protocol",
            "all",
            "bpf",
            "direct-action",
            "object-pinned",
            path,
        ],
        "",
    );
    fs::remove_file(path)?;
    added.map(drop)
}

/// The program on an interface, after all others at its hook, until it is dropped.
#[derive(Debug)]
pub struct ForeignTc {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl ForeignTc {
    /// Attaches it to the interface with this index of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn attach(interface: u32, hook: TcxHook) -> io::Result<Self> {
        let program = DROPPING.load()?;
        let link = bpf(
            LINK_CREATE,
            &mut Create {
                program: program.as_raw_fd().cast_unsigned(),
                interface,
                attach_type: hook as u32,
                ..Create::default()
            },
        )?;
        Ok(Self {
            _program: program,
            _link: link,
        })
    }
}
