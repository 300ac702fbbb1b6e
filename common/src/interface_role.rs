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

    /// The stack takes IPv4 packets from any source that is another host's (`rp_filter` 0).
    pub const fn unfiltered(interface: u32) -> Self {
        Self { interface, role: 3 }
    }

    /// The stack takes IPv4 packets from each source that it has a route to (`rp_filter` 2).
    pub const fn loosely_filtered(interface: u32) -> Self {
        Self { interface, role: 4 }
    }
}
