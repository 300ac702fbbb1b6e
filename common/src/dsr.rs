//! What the programs know of direct server return (dsr) before they look anything up for a packet.
//!
//! Two words that the agent and the programs share, so that a node without services in mode dsr pays
//! nothing for them, and one that only hands packets on no lookup of connections.

/// How many words there are.
pub const WORDS: usize = 2;

/// The word that says whether the node of any address is known: [`NONE`], then nothing goes on in an envelope,
/// or another number, which changes with whatever is known. Written by the agent.
pub const LOCATED: u32 = 0;

/// The word that says whether connections to frontends in mode dsr may be in the table: [`NONE`],
/// [`SOUGHT`] or [`SOME`].
///
/// Programs write `SOME` before they enter such a connection, the agent before a frontend that may have
/// connections gets into that mode. To find out that there are none any more, the agent writes
/// `SOUGHT`, lets all programs end, looks through the table, and exchanges `SOUGHT` for `NONE`.
pub const TRACKED: u32 = 1;

/// There are none.
pub const NONE: u64 = 0;
/// There are some, or may be.
pub const SOME: u64 = 1;
/// There may be some; the agent is looking.
pub const SOUGHT: u64 = 2;
