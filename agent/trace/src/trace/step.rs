//! The steps of a packet's way.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

/// A step. Its words are those of [`std::fmt::Display`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// The packet meets a program.
    Hook {
        /// The interface; none: the system call of a process.
        interface: Option<String>,
        /// The hook.
        hook: Hook,
    },
    /// There is none where it comes by.
    NoProgram {
        /// The interface.
        interface: String,
        /// The hook.
        hook: Hook,
    },
    /// It is of a connection that is known.
    Connection {
        /// Client that began it.
        client: SocketAddr,
        /// Frontend that the client asked for.
        frontend: SocketAddr,
        /// From where the client's packets go on.
        source: SocketAddr,
        /// Backend that answers.
        backend: SocketAddr,
        /// State of the connection.
        state: String,
        /// True if the packet is the backend's.
        is_reply: bool,
    },
    /// It is of a connection whose time is over, or whose backend is gone, and begins another.
    Replaced {
        /// The backend that it had.
        backend: SocketAddr,
    },
    /// It is of no connection that is known.
    NoConnection,
    /// It is for a frontend.
    Frontend {
        /// The address and port that are asked for.
        address: SocketAddr,
        /// `namespace/name`, if an event leads to it.
        service: Option<String>,
        /// The name of the service's port.
        service_port: Option<String>,
        /// `ClusterIP` and its like.
        kind: Option<String>,
        /// True if it forwards by direct server return.
        is_dsr: bool,
        /// Among which services connections are shared out, with their weights.
        split: Vec<(String, u32)>,
    },
    /// It is for no frontend.
    NoFrontend {
        /// Destination of the packet.
        address: SocketAddr,
    },
    /// The frontend is for others alone.
    NotForClient,
    /// Check of the client against the frontend's source ranges.
    SourceRanges {
        /// True if it is.
        is_in: bool,
    },
    /// Among whom is chosen.
    Set {
        /// The set.
        set: Set,
        /// Why this one.
        why: String,
        /// Backends with a share.
        backends: Vec<Member>,
        /// The share that is refused.
        refused: f64,
    },
    /// The choice of a backend.
    Choice {
        /// The backend.
        backend: SocketAddr,
        /// Method of the choice.
        how: How,
        /// True if it is on this node.
        is_local: bool,
    },
    /// The client stays with its backend.
    Affinity {
        /// For how many seconds since its last connection.
        seconds: u32,
        /// True if it has one.
        is_known: bool,
    },
    /// From where the packet goes on.
    Source {
        /// The client's address, or another.
        source: SocketAddr,
        /// Change of the source.
        change: SourceChange,
        /// Why.
        why: String,
    },
    /// A route was asked for.
    Route {
        /// Destination.
        to: IpAddr,
        /// By which interface, if there is a way.
        interface: Option<String>,
        /// The next hop, if it is another one.
        gateway: Option<IpAddr>,
        /// Maximum length of a packet there.
        mtu: Option<u32>,
        /// A fault, or another fact to be known.
        remark: Option<String>,
    },
    /// The packet is put into another one.
    Envelope {
        /// From this node.
        from: IpAddr,
        /// To the backend's.
        to: IpAddr,
    },
    /// The packet is as it is then.
    Packet {
        /// In words.
        packet: String,
    },
    /// Something would be counted.
    Counter {
        /// The counter's name.
        name: String,
    },
    /// Verdict of the program.
    Verdict {
        /// In words.
        verdict: String,
    },
    /// The kernel's stack has it.
    Stack {
        /// Outcome of the packet there.
        fate: String,
    },
    /// The address that the process's socket is connected to, or sends to.
    Socket {
        /// The address and port.
        to: SocketAddr,
    },
}

impl Step {
    /// Returns whether the packet is somewhere else from here on.
    pub const fn is_place(&self) -> bool {
        matches!(
            self,
            Self::Hook { .. } | Self::NoProgram { .. } | Self::Stack { .. } | Self::Socket { .. }
        )
    }
}

/// A hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// At the driver.
    Xdp,
    /// As a packet comes in.
    Ingress,
    /// As it goes out.
    Egress,
    /// A process connects a socket.
    Connect,
    /// A process sends a datagram.
    Sendmsg,
}

/// A set of backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Set {
    /// All usable ones.
    Cluster,
    /// Backends of this node.
    Local,
}

/// One of a set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member {
    /// Its address.
    pub address: SocketAddr,
    /// Its share of new connections, from 0 to 1.
    pub share: f64,
    /// Its weight.
    pub weight: u32,
    /// True if it is on this node.
    pub is_local: bool,
}

/// Method by which a backend is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// At random.
    Drawn,
    /// By the packet's addresses, ports and sequence number, of this node's tables alone.
    ByPacket,
    /// By a Maglev table.
    Maglev,
    /// As the client had it last.
    Affinity,
}

/// Change of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceChange {
    /// It is kept.
    Kept,
    /// It is this node's then.
    Snat,
    /// It is the address that a pod sees when it reaches itself.
    Hairpin,
}

/// End of a packet or a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It leaves by an interface.
    Leaves,
    /// It is for this node.
    Delivered,
    /// It is dropped.
    Dropped,
    /// Its sender gets an error: it does not get there.
    Rejected,
    /// A system call goes on.
    GoesOn,
    /// A system call fails.
    Fails,
}
