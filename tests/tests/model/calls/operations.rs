//! Operations of processes, and events meanwhile: abstract operations, which shrink.

use proptest::{collection::vec, prelude::*};

use crate::{
    operations::{Change, Pick},
    strategies::change,
};

/// Number of kinds of sockets: each family, protocol and namespace.
pub(crate) const KINDS: usize = 8;

/// A kind of socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub is_ipv6: bool,
    pub is_tcp: bool,
    /// Of a process in another network namespace than the node's.
    pub is_of_pod: bool,
}

impl Kind {
    /// The kind with this number.
    pub(crate) const fn of(number: usize) -> Self {
        Self {
            is_ipv6: number & 1 != 0,
            is_tcp: number & 2 != 0,
            is_of_pod: number & 4 != 0,
        }
    }
}

/// One step of a case.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    /// An event.
    Event(Change),
    /// So many seconds.
    Pass(u32),
    /// A grace period.
    Reclaim,
    /// The process closes its socket of the kind with this number; its next call is on another one.
    Close(usize),
    /// A system call on the socket of this kind.
    Call(usize, Ask),
}

/// A system call.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    Bind {
        address: Pick,
        port: Pick,
    },
    Connect(Target),
    /// `connect(2)` with `AF_UNSPEC`.
    Disconnect,
    Send(Target),
    /// A datagram comes, and is received: of the peer, of one that was sent to, or of any host.
    Receive {
        from: Pick,
    },
    NamePeer,
}

/// A destination that a process requests.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// A frontend that exists.
    Frontend(Pick),
    /// The one that the socket asked before.
    Again(Pick),
    /// A frontend's port at an address of the host: loopback, unspecified, a node's.
    AtHost { frontend: Pick, address: Pick },
    /// A frontend's address with another port.
    Beside { frontend: Pick, port: Pick },
    /// A backend itself.
    Backend(Pick),
    /// Any host.
    Other(Pick),
}

/// The operations of a case.
pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        100 => (kind(), ask()).prop_map(|(kind, ask)| Operation::Call(kind, ask)),
        8 => (0..KINDS).prop_map(Operation::Close),
        8 => change().prop_map(Operation::Event),
        2 => proptest::sample::select(vec![4u32, 9, 11, 31]).prop_map(Operation::Pass),
        1 => Just(Operation::Reclaim),
    ];
    // Nothing is there at first.
    (vec(change(), 2..6), vec(operation, 1..400)).prop_map(|(changes, rest)| {
        let changes = changes.into_iter().map(Operation::Event);
        changes.chain(rest).collect()
    })
}

/// Mostly of the host: more is done for it.
fn kind() -> impl Strategy<Value = usize> {
    prop_oneof![2 => 0..KINDS / 2, 1 => 0..KINDS]
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        5 => (any::<Pick>(), any::<Pick>()).prop_map(|(address, port)| Ask::Bind { address, port }),
        40 => target().prop_map(Ask::Connect),
        3 => Just(Ask::Disconnect),
        40 => target().prop_map(Ask::Send),
        16 => any::<Pick>().prop_map(|from| Ask::Receive { from }),
        8 => Just(Ask::NamePeer),
    ]
}

fn target() -> impl Strategy<Value = Target> {
    let pick = any::<Pick>;
    prop_oneof![
        40 => pick().prop_map(Target::Frontend),
        14 => pick().prop_map(Target::Again),
        12 => (pick(), pick()).prop_map(|(frontend, address)| Target::AtHost { frontend, address }),
        5 => (pick(), pick()).prop_map(|(frontend, port)| Target::Beside { frontend, port }),
        5 => pick().prop_map(Target::Backend),
        8 => pick().prop_map(Target::Other),
    ]
}
