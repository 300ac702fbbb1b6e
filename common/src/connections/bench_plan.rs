//! What the programs of the bench do in a run: the layout that it shares with them.

/// Flows whose packets come in turn.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Plan {
    /// How many flows there are.
    pub flows: u32,
    /// The flow of the packet that came last.
    pub flow: u32,
    /// How far the next packet's flow is from it.
    pub step: u32,
    /// The number of the first flow: those of different runs need not meet.
    pub first: u32,
    /// The tick.
    pub now: u32,
    /// IANA number of the flows' protocol.
    pub protocol: u32,
    /// How many packets went well: found what they sought, or opened a connection.
    pub done: u64,
    /// How many did not.
    pub failed: u64,
    /// What keeps the compiler from leaving the work out.
    pub sink: u64,
}
