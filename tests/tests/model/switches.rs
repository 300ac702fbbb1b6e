//! What the datapath does today where section 4 of the design asks for more. Each switch is one
//! place in the model; when the datapath learns the rest, the switch is flipped and then removed.

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
