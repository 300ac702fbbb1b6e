//! Parts of a case: abstract operations, which shrink. They refer to services, backends and flows
//! by a number that [picks](pick) among whatever there is when their turn comes.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use super::{
    cluster::{Backend, Policy, Service, State},
    model::Hook,
    mutation::Mutation,
    nodes::Nodes,
    packet::Shape,
    split::Split,
};

/// A number that picks.
pub(crate) type Pick = u16;

/// The one of `items` that the number stands for: the same one as long as it is among them,
/// whichever others are, so that a case stays what it is when parts of it are left out.
pub(crate) fn pick<T: Hash>(items: impl IntoIterator<Item = T>, number: Pick) -> Option<T> {
    items.into_iter().max_by_key(|item| {
        let mut hasher = DefaultHasher::new();
        (number, item).hash(&mut hasher);
        hasher.finish()
    })
}

/// One step of a case.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    /// A packet, with changes that make something else of it.
    Packet(Way, Shape, Vec<Mutation>),
    /// A datagram in three pieces: which of them come, in which order, and how they are changed.
    Datagram(Way, Shape, Vec<(usize, Vec<Mutation>)>),
    /// Many connections at once.
    Crowd(Crowd),
    /// A frame that never was a packet.
    Bytes(Hook, Vec<u8>),
    /// An event.
    Event(Change),
    /// So many seconds.
    Pass(u32),
    /// A grace period.
    Reclaim,
}

/// Between whom a packet goes.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// From a client to a frontend that exists.
    ToFrontend { frontend: Pick, client: Pick },
    /// From a client elsewhere to a frontend in mode dsr, if there is one.
    ToDsr { frontend: Pick, client: Pick },
    /// A request of a flow that was opened some time.
    Request { flow: Pick },
    /// A reply of a flow that was opened some time.
    Reply { flow: Pick },
    /// A request as it goes on to the backend, or a reply as it goes on to the client, at the
    /// hook where it meets the programs once more; or either one at the wrong hook; or a packet
    /// of the client's to the backend itself.
    Elsewhere { flow: Pick, which: u8 },
    /// Any ends, any hook.
    Stray {
        egress: bool,
        source: Pick,
        destination: Pick,
    },
}

/// Connections of one client to one frontend, one from each of its ports.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    pub frontend: Pick,
    pub client: Pick,
    /// The first port.
    pub port: u16,
    pub count: u16,
    pub progress: Progress,
}

/// Progress of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Progress {
    /// The client has spoken.
    Begun,
    /// The backend has, too.
    Answered,
    /// They are not given up for others.
    Assured,
}

/// A change of services.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Adds or replaces a service.
    Put { service: Service, update: bool },
    /// Removes a service.
    Delete { service: Pick },
    /// Changes something of a service that exists.
    Tweak { service: Pick, tweak: Tweak },
    /// The nodes change, and some services.
    NodePorts {
        other_node: bool,
        services: Vec<Service>,
    },
    /// The names and addresses of nodes change.
    Nodes(Nodes),
    /// A snapshot: of the services that exist those with a bit in `kept`, and new ones.
    Resync {
        other_node: bool,
        nodes: Nodes,
        kept: u8,
        services: Vec<Service>,
    },
}

/// A small change of a service.
#[derive(Debug, Clone)]
pub(crate) enum Tweak {
    Weight(Pick, u32),
    State(Pick, State),
    Scopes(Pick, Option<u8>),
    RemoveBackend(Pick),
    AddBackend(Pick, Backend),
    ExternalPolicy(Policy),
    InternalPolicy(Policy),
    /// The whole set of a port becomes another.
    Exchange(Pick, Vec<Backend>),
    /// A port gets another split, or has none any more.
    Split(Pick, Option<Split>),
}

/// The scopes that two bits encode; only local backends are in Local.
pub(crate) fn scopes_of(bits: u8, local: bool) -> Vec<Policy> {
    let cluster = (bits & 1 != 0).then_some(Policy::Cluster);
    let local = (bits & 2 != 0 && local).then_some(Policy::Local);
    cluster.into_iter().chain(local).collect()
}

/// The backends with each place once.
pub(crate) fn sorted(mut backends: Vec<Backend>) -> Vec<Backend> {
    backends.sort_by_key(|backend| backend.at);
    backends.dedup_by_key(|backend| backend.at);
    backends
}
