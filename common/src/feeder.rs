//! The packets of the feeder: the layout that it shares with the benches.

/// The flows whose packets come in turn, each of them to one of some services in turn, and the
/// bytes that they have in common. Each is of [`LENGTH_V4`] or [`LENGTH_V6`] bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Plan {
    /// The client's address, without its last word.
    pub client_prefix: [u32; 3],
    /// The peer's: a frontend's, or a backend's.
    pub peer_prefix: [u32; 3],
    /// The last word of the first client's address, in the machine's byte order. Each client has so many flows that its
    /// ports distinguish them, then the next one has.
    pub client: u32,
    /// The last word of the first service's, in the machine's byte order; the next service has
    /// the next.
    pub peer: u32,
    /// The peer's port, in network order.
    pub peer_port: u32,
    /// 0: packets from clients; else packets to them.
    pub reply: u32,
    /// Number of flows.
    pub flows: u32,
    /// The flow of the packet that was made last.
    pub flow: u32,
    /// Distance of the next packet's flow from it: less than `flows`, without a common divisor.
    pub step: u32,
    /// Number of services: a divisor of `flows`.
    pub services: u32,
    /// The service of the packet that was made last.
    pub service: u32,
    /// `step`, modulo `services`.
    pub service_step: u32,
    /// IPv4: time to live and protocol, as in the header with a checksum of 0.
    pub hops: u32,
    /// IPv4: the sum over the header without addresses and checksum, in network order.
    pub sum: u32,
    /// The length of each frame.
    pub length: u32,
    /// The address that replies go to, in network order, if the clients' own are hidden: each to the
    /// port that a table has for its flow. 0 if they are not.
    pub hidden: u32,
    /// The first 8 bytes of the network header.
    pub network: u64,
    /// The 16 bytes that follow the ports.
    pub transport: [u64; 2],
}

/// Number of flows of each client, by its ports: a power of two.
pub const FLOWS_PER_CLIENT: u32 = 4096;

/// A client's first port.
pub const FIRST_PORT: u32 = 20_480;

/// A flow as the *floor* looks it up, a program that does as little as a translation can: the
/// words of an IPv4 packet as they are in it. The kernel compares 8 bytes at a time, so each of these
/// is written by one store.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Source and destination address.
    pub addresses: u64,
    /// Source and destination port, and above them the protocol's number.
    pub rest: u64,
}

/// The same of an IPv6 packet.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowV6 {
    /// Source and destination address.
    pub addresses: [u64; 4],
    /// As [`Flow::rest`].
    pub rest: u64,
}

/// The envelope in which the floor at the driver sends a flow of IPv6.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvelopeV6 {
    /// The envelope's source and destination address.
    pub addresses: [u64; 4],
}

/// The destination to which the floor sends a flow, as it is to be in the packet.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// The destination's address.
    pub address: u32,
    /// Its port; the upper half is 0.
    pub port: u32,
}

/// Capacity of the floor at the driver that chooses, for frontends, slots, backends and nodes, of each.
pub const CHOICES: u32 = 1024;

/// The slots of a frontend of that one.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choices {
    /// The first slot.
    pub first: u32,
    /// Number of slots.
    pub count: u32,
}

/// The translation of a flow's packets by the floor at the driver.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    /// Source and destination address.
    pub addresses: u64,
    /// Source and destination port.
    pub ports: u32,
    /// Change of the network header's checksum, one hop later too: a sum in one's complement.
    pub network_change: u16,
    /// Change of the transport header's checksum.
    pub transport_change: u16,
}

/// The exit of the bare redirect for packets that come in by an interface.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The interface.
    pub interface: u32,
    /// The link addresses, that of the next hop first.
    pub link: [u8; 12],
}

/// The destination of frames at the driver: the link address of the interface.
pub const STATION: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// The interface that the floor at the driver sends all packets to, whether there is one or not.
pub const FLOOR_EXIT: u32 = 2;

/// Number of flows with a port in the table of those whose clients are hidden.
pub const HIDDEN_FLOWS: u32 = 1 << 16;

/// Ethernet, IPv4, TCP; or another transport header with as many bytes of its payload.
pub const LENGTH_V4: usize = 14 + 20 + 20;
/// The same with IPv6.
pub const LENGTH_V6: usize = 14 + 40 + 20;
