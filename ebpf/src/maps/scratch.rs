//! Layouts of what a CPU keeps of the packet that it is at. On the stack, programs and their
//! subprograms would have more than the 512 bytes that they are allowed, of which kernels before
//! 6.8 give each function a multiple of 32.

use shunt_common::{ConntrackEntry, ConntrackKey, Family, Probes, Tuple};

use crate::packet::{link::EthernetAddresses, parsed::Packet};

/// A packet that came in, and the tuple that it goes on with.
#[repr(C)]
pub(crate) struct Arrival<F: Family> {
    pub packet: Packet<F>,
    pub translated: Tuple<F>,
}

/// A search for a source port: what the kernel's loop keeps from one try to the next.
#[repr(C)]
pub(crate) struct PortSearch<F: Family> {
    pub connection: NewConnection<F>,
    pub ports: Probes,
    /// Whether the search goes on, or what became of the claim; see [`crate::nat::ports`].
    pub outcome: i32,
    /// Of the ports whose connection is over the one that has been so for the longest, and the
    /// tick of its last packet. Port 0 is none.
    pub oldest_over: u32,
    pub oldest_port: u16,
}

/// A connection whose entries are to be created, with a certain source port.
///
/// Addresses are copied from table to table, field by field: a tuple in the program's own
/// variables would be words in registers, which are too few, and so on the stack.
#[repr(C)]
pub(crate) struct NewConnection<F: Family> {
    pub client: Tuple<F>,
    pub translated: Tuple<F>,
    pub backend: u32,
    pub generation: u16,
    /// Flags of [`ConntrackEntry::seen`] that its first packet sets.
    pub flags: u16,
    /// The key of the reply direction.
    pub reply: ConntrackKey<F>,
    /// The key of the original direction: of whoever has the port, or of this one's.
    pub original: ConntrackKey<F>,
    pub entry: ConntrackEntry<F>,
}

/// The way to a pod, as a CPU remembers it.
#[repr(C)]
pub(crate) struct Hop<F: Family> {
    /// Until when, on the kernel's monotonic clock.
    pub until: u64,
    /// Whose.
    pub address: F::Address,
    /// The host's end of its device; 0: through the stack.
    pub interface: u32,
    /// The longest packet that it takes, from the network header on.
    pub mtu: u32,
    pub link: EthernetAddresses,
}

/// A source of packets that are forwarded, as a CPU remembers it.
#[repr(C)]
pub(crate) struct Origin<F: Family> {
    /// Until when, on the kernel's monotonic clock.
    pub until: u64,
    pub address: F::Address,
    /// Where its packet came in.
    pub interface: u32,
    /// Whether packets to it would go out there.
    pub is_on_way: u32,
}

/// A packet that goes through the stack half translated.
#[repr(C)]
pub(crate) struct Halfway<F: Family> {
    /// The tuple with which it came in, and the one with which it is to go out.
    pub came: Tuple<F>,
    pub goes: Tuple<F>,
    pub protocol: u32,
    /// Whether it has gone out: the stack lets such packets through.
    pub has_left: u32,
}
