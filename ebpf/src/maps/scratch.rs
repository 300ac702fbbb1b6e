//! Layouts of what a CPU keeps of the packet that it is at. On the stack, programs and their
//! subprograms would have more than the 512 bytes that they are allowed, of which kernels before
//! 6.8 give each function a multiple of 32.

use aya_ebpf::bindings::bpf_redir_neigh as NextHop;
use shunt_common::{
    Family, Probes, Tuple,
    connections::{Connection, Wide},
};

use crate::packet::{
    link::{EthernetAddresses, Station},
    parsed::Packet,
};

/// A packet that came in, and the tuple that it goes on with.
#[repr(C)]
pub(crate) struct Arrival<F: Family> {
    pub packet: Packet<F>,
    pub translated: Tuple<F>,
}

/// A connection that is to be opened, and the search for its source port.
///
/// Addresses are copied from table to table, field by field: a tuple in the program's own
/// variables would be words in registers, which are too few, and so on the stack.
#[repr(C)]
pub(crate) struct Opening<F: Wide> {
    pub connection: Connection<F>,
    pub ports: Probes,
    /// The random number that the next connection's backend is chosen by; 0: none is drawn.
    pub drawn: u32,
    /// Nonzero if the client's own port is tried first; 0: no.
    pub keeps_port: u32,
    /// A port that is not taken, network order; no port if any may be.
    pub avoided: u32,
    pub now: u32,
    /// Number of ports that have been tried.
    pub tried: u32,
    /// Nonzero if no other connection has the port of this one; 0: no.
    pub vacant: u32,
    /// Nonzero if one has it that gives way; 0: no.
    pub gives_way: u32,
    /// Nonzero if the flow is open by now, by another processor; 0: no.
    pub is_known: u32,
    /// Rank of the connection that would give way first: see [`crate::nat::ports`]; all bits: none would.
    pub rank: u32,
    /// For how many ticks it has been silent, and who it is.
    pub oldest_idle: u32,
    pub oldest: Holder,
    /// The same of the doubtful ones alone.
    pub doubtful_idle: u32,
    pub doubtful: Holder,
    /// Number of the doubtful ones, less that of the unassured ones.
    pub more_doubtful: i32,
}

/// Holder of a source port: its reply half's slot, which use of that it is, and the port.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Holder {
    pub index: u32,
    pub version: u32,
    /// Network order.
    pub port: u32,
}

/// The way to a pod, as a CPU remembers it.
#[repr(C)]
pub(crate) struct Hop<F: Family> {
    /// Until when, in the kernel's ticks.
    pub until: u64,
    /// Address of the pod.
    pub address: F::Address,
    /// The interface that the packets came in by.
    pub from: u32,
    /// The host's end of its device; 0: through the stack.
    pub interface: u32,
    /// The longest packet that it takes, from the network header on.
    pub mtu: u32,
    pub link: EthernetAddresses,
}

/// The way of packets that a driver sends on, as a CPU remembers it.
#[repr(C)]
pub(crate) struct Way<F: Family> {
    /// Until when, in the kernel's ticks.
    pub until: u64,
    /// From when on a packet has to go through the kernel's neighbour code, in the kernel's ticks; 0: that is not known
    /// yet. Whatever way has the entry.
    pub confirmation_due: u64,
    /// Result of [`crate::maps::dsr::located`] when the `node` was looked up.
    pub located: u64,
    /// The addresses that the packets have on it.
    pub source: F::Address,
    pub destination: F::Address,
    /// Of packets that leave in envelopes, to their backend at `destination`: the address of that one's node,
    /// or the unspecified one.
    pub node: F::Address,
    /// The interface that they came in by; of those that leave in envelopes, with the uppermost bit.
    pub from: u32,
    /// The interface that they leave by; 0: not from here.
    pub interface: u32,
    /// The longest packet that it takes, from the network header on.
    pub mtu: u32,
    /// Nonzero if packets out of the stack are translated behind that interface.
    pub is_translated_behind: u32,
    pub link: EthernetAddresses,
    /// The interface that they came in by, as frames for it name it.
    pub own: Station,
}

/// A source of packets that are forwarded, or a destination of packets that leave with another source than the stack knows,
/// as a CPU remembers it.
#[repr(C)]
pub(crate) struct Origin<F: Family> {
    /// Until when, in the kernel's ticks.
    pub until: u64,
    pub address: F::Address,
    /// The address at the other end: the destination of packets that are forwarded, the source of those that leave.
    pub other: F::Address,
    /// Interface where its packet came in; of one that leaves, where it is about to, with the uppermost bit.
    pub interface: u32,
    /// Nonzero if its packets may come in there; of one that leaves, if packets to it go out there.
    pub is_on_way: u32,
    /// Of packets that leave.
    pub leaving: Leaving,
}

/// The way of packets that leave with another source than the stack knows.
#[repr(C)]
pub(crate) struct Leaving {
    /// Their protocol, and in the lower half the port that they leave with.
    pub service: u32,
    /// The interface that they came in by.
    pub came_by: u32,
    /// The interface that they are to leave by, if they are at another one.
    pub interface: u32,
    /// The longest packet that it takes, from the network header on.
    pub mtu: u32,
    pub next_hop: NextHop,
}

/// A packet that goes through the stack half translated.
#[repr(C)]
pub(crate) struct Halfway<F: Family> {
    /// The tuple with which it came in, and the one with which it is to go out.
    pub came: Tuple<F>,
    pub goes: Tuple<F>,
    pub protocol: u32,
    /// The second of the entry's last use.
    pub used: u32,
    /// The second in which the entry was last taken from a flow that may still have had packets in the stack; 0: never.
    pub taken: u32,
}
