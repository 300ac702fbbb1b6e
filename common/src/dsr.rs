//! The possible presence of connections to frontends in mode dsr in the table: the states of
//! [`TRACKED`](crate::variables::TRACKED).
//!
//! A node without services in mode dsr pays nothing for them, and one that only hands packets on no lookup of
//! connections. Programs write `SOME` before they enter such a connection, the agent before a frontend that may have
//! connections gets into that mode. To find out that there are none any more, the agent writes `SOUGHT`, lets all
//! programs end, looks through the table, and exchanges `SOUGHT` for `NONE`.

/// There are none.
pub const NONE: u64 = 0;
/// There are some, or may be.
pub const SOME: u64 = 1;
/// There may be some; the agent is looking.
pub const SOUGHT: u64 = 2;
