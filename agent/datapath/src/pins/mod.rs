//! The objects that outlive the agent: tables, programs and links, pinned below one directory of a bpffs.
//!
//! ```text
//! maps/NAME                      a table of the object, or LAYOUT
//! maps/IPV6_PROGRAMS-NUMBER      a table of programs of IPv6: a new one for each agent, and for each watch
//! programs/tc_ingress            a program that links run
//! links/NETNS-INDEX-ingress      on the interface of this index in the namespace of this inode;
//!                                before Linux 6.6 a symbolic link, the note of a filter
//! ```
//!
//! The agent [holds](held::Held) each of these objects too, and pins it again if others remove the pin or hide it.

pub(crate) mod bpffs;
pub(crate) mod cleanup;
pub(crate) mod directory;
pub(crate) mod error;
pub(crate) mod handed_over;
pub(crate) mod held;
mod lasting;
pub(crate) mod layout;
pub(crate) mod link;
pub(crate) mod lock;
pub(crate) mod namespace;
