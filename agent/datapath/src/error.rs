//! Errors below the renderer.

use std::{io, path::PathBuf};

use shunt_common::registry::Size;
use thiserror::Error;

use crate::{pins::error::PinError, sys::grace::GraceError};

/// A change that the tables did not take. Nothing of it was published.
#[derive(Debug, Error)]
pub enum TableError {
    /// A table has no room for what the change needs.
    #[error(
        "the {} table is full ({family}): {needed} more entries are needed and {free} of {capacity} are \
         free", table.name()
    )]
    Full {
        /// The table.
        table: Size,
        /// Of which family: `IPv4`, `IPv6`.
        family: &'static str,
        /// Number of entries that the change needs.
        needed: u32,
        /// Number of entries that are left.
        free: u32,
        /// Number of entries in all.
        capacity: u32,
    },
    /// A service port has more backends than one frontend can hold.
    #[error("{backends} backends of one service port are more than a frontend can hold, {limit}")]
    TooManyBackends {
        /// Number of backends that were rendered.
        backends: usize,
        /// Number of backends that a frontend can hold.
        limit: u32,
    },
    /// The kernel refused a system call.
    #[error("{call} failed: {source}")]
    Kernel {
        /// The call and the table it was about.
        call: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// The interface can have none of our programs.
#[derive(Debug, Error)]
pub enum LinkLayerError {
    /// Its type is neither.
    #[error(
        "it is of link type {0} (linux/if_arp.h): there are programs for Ethernet and for \
         interfaces without a link layer only"
    )]
    Unknown(u16),
    /// It is a GRE tunnel that itself puts its header before each packet.
    #[error(
        "its packets begin with the tunnel's own header, as it is GRE without a remote, or with a \
         multicast one: give each peer an interface with a `remote`, or leave it out by \
         --exclude-interface"
    )]
    OuterHeader,
    /// The kernel does not return it.
    #[error("asking for its link type failed: {0}")]
    Unreadable(#[from] io::Error),
}

/// Connections cannot be translated at the socket.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The cgroup cannot be used.
    #[error("the cgroup {} cannot be opened: {source}", path.display())]
    Cgroup {
        /// Its directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory is something else.
    #[error(
        "{} is not the directory of a cgroup of version 2; `findmnt -t cgroup2` says where these \
         are", .0.display()
    )]
    NotCgroup(PathBuf),
    /// It is not known what is mounted.
    #[error("reading what is mounted failed: {0}")]
    Mounts(io::Error),
    /// There is no cgroup to attach to.
    #[error("no cgroup file system of version 2 is mounted, and mounting one failed: {0}")]
    NoCgroup(io::Error),
    /// The root is not where an agent looks for it.
    #[error("mounting the root of all cgroups failed: {0}")]
    MountRoot(io::Error),
    /// The kernel has not all that the programs call.
    #[error("this kernel, {release}, lacks {missing}")]
    OldKernel {
        /// As `uname -r` shows it.
        release: String,
        /// Features that it lacks, each with the version of Linux that has it.
        missing: String,
    },
    /// The kernel did not attach a program.
    #[error("attaching to {hook} of {} failed: {source}", cgroup.display())]
    Attach {
        /// The hook's name.
        hook: &'static str,
        /// The cgroup's directory.
        cgroup: PathBuf,
        /// The kernel's reason.
        source: aya::programs::ProgramError,
    },
    /// The kernel has no number for our network namespace.
    #[error("asking for the cookie of the network namespace (Linux 5.14) failed: {0}")]
    Cookie(io::Error),
}

/// The datapath could not be set up.
#[derive(Debug, Error)]
pub enum DatapathError {
    /// The kernel did not take the object: a feature is missing or a privilege.
    #[error(
        "loading the kernel programs failed (it needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON): {0}"
    )]
    Load(#[from] aya::EbpfError),
    /// The embedded object cannot be decompressed.
    #[error(
        "the agent's binary is damaged, install it again: its kernel programs are unreadable: {0}"
    )]
    Embedded(#[source] io::Error),
    /// The interface has an XDP program that is not ours.
    #[error("another XDP program is attached: {name} (id {id})")]
    OtherXdp {
        /// Its name.
        name: String,
        /// The kernel's number of it.
        id: u32,
    },
    /// The kernel has not all that the programs call.
    #[error(
        "this kernel, {release}, is too old for the programs or was built without something that \
         they need: it lacks {missing}"
    )]
    OldKernel {
        /// As `uname -r` shows it.
        release: String,
        /// Features that it lacks, each with the version of Linux that has it.
        missing: String,
    },
    /// The programs that report connections cannot be given the tables of the others.
    #[error("handing the tables to programs that tell of connections failed: {source}")]
    FlowTables {
        /// The kernel's reason.
        source: io::Error,
    },
    /// There is no place where they could be given them.
    #[error(
        "an agent without a pin directory cannot be watched: start it with --pin-dir, without --no-pin"
    )]
    FlowsUnpinned,
    /// The kernel did not take a program.
    #[error("loading the program {name} failed: {source}")]
    Program {
        /// The program's name.
        name: &'static str,
        /// The kernel's reason.
        source: aya::programs::ProgramError,
    },
    /// A table could not be opened.
    #[error("opening the table {name} failed: {source}")]
    Map {
        /// The table's name.
        name: &'static str,
        /// Why.
        source: aya::maps::MapError,
    },
    /// A table could not be mapped into memory.
    #[error("mapping the table {name} failed: {source}")]
    Mapping {
        /// The table's name.
        name: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The object in this binary lacks something that the agent knows by name.
    #[error("the kernel object has no {0}: it was built from another version")]
    Missing(&'static str),
    /// The kernel does not describe a table that it has just made, or we may not open one twice.
    #[error("asking the kernel about a table failed: {0}")]
    Copies(io::Error),
    /// The kernel's clock cannot be read.
    #[error("reading the kernel's clock failed: {0}")]
    Clock(io::Error),
    /// No random words are to be had.
    #[error("reading random words from /dev/urandom failed: {0}")]
    Random(io::Error),
    /// The tables of an earlier agent did not hand over.
    #[error("the tables of the earlier agent stay in use: {0}")]
    Handover(TableError),
    /// Connections were to be translated at the socket, and cannot be.
    #[error("connections cannot be translated at the socket: {0}")]
    Sockets(SocketError),
    /// The thread for the verification does not start.
    #[error("starting a thread failed: {0}")]
    Threads(io::Error),
    /// The agent received a signal to end while the kernel verified the programs.
    #[error("it was stopped while the kernel verified the programs")]
    Stopped,
    /// There is no program for the interface.
    #[error(transparent)]
    LinkLayer(#[from] LinkLayerError),
    /// The kernel does not wait for packets in flight.
    #[error(transparent)]
    Grace(#[from] GraceError),
    /// The pin directory cannot be used.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// More ranges than the programs can hold.
    #[error(
        "{given} ranges were given (of pods, or of sources of envelopes), at most {limit} a family are possible"
    )]
    TooManyPodCidrs {
        /// Number that was given.
        given: usize,
        /// Largest number that is possible.
        limit: usize,
    },
}

impl From<SocketError> for DatapathError {
    fn from(error: SocketError) -> Self {
        Self::Sockets(error)
    }
}
