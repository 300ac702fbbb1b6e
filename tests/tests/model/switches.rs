//! What the datapath does today where section 4 of the design asks for more. Each switch is one
//! place in the model; when the datapath learns the rest, the switch is flipped and then removed.

/// Under external policy Local, clients on this node are served as under policy Cluster
/// (`Frontend::set_for`).
pub const NODE_CLIENTS_USE_THE_CLUSTER_SET: bool = false;

/// A client with one of this node's own addresses is a client on this node
/// (`Cluster::is_on_this_node`).
pub const OWN_ADDRESSES_ARE_CLIENTS_ON_THIS_NODE: bool = false;

/// Load balancer IPs drop clients outside the service's source ranges (`Model::refusal`).
pub const SOURCE_RANGES: bool = false;

/// A service's affinity binds a client's address to a backend (`Model::candidates`).
pub const SESSION_AFFINITY: bool = false;

/// An outside client of a remote backend gets this node's address as its source
/// (`Model::source_towards`), and the packet is forwarded instead of passed on.
pub const SNAT: bool = false;

/// What becomes of two flows of one client port that share a backend: their replies look alike
/// (`Flows::open`).
pub const SHARED_REPLY: SharedReply = SharedReply::TakenOver;

/// See [`SHARED_REPLY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedReply {
    /// The younger flow gets them; the older one is forgotten, so that its next packet opens it
    /// anew.
    TakenOver,
}
