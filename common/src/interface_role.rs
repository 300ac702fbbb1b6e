//! The programs' knowledge of interfaces.

use bytemuck::{Pod, Zeroable};

/// An interface in a role: it has the role if the table has this key.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct InterfaceRole {
    /// The interface's index.
    pub interface: u32,
    /// The number of the role.
    pub role: u32,
}

impl InterfaceRole {
    /// The interface has the programs.
    pub const fn attached(interface: u32) -> Self {
        Self { interface, role: 0 }
    }

    /// Behind the interface are pods of this node, and nothing else.
    pub const fn of_pods(interface: u32) -> Self {
        Self { interface, role: 1 }
    }

    /// Another program or a queueing discipline handles the packets of the interface, whose other end is in another
    /// network namespace. A packet that is redirected to or from there would pass neither.
    pub const fn screened(interface: u32) -> Self {
        Self { interface, role: 2 }
    }
}
