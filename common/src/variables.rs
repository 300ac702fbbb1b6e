//! Words that hold for all packets, which the agent changes while the programs run. Each begins at 0.

/// The number of words.
pub const WORDS: usize = 7;

/// The version of the known nodes of addresses: 0 if no address's node is known, then nothing goes on in an envelope;
/// or another number, which changes with whatever is known.
pub const LOCATED: u32 = 0;

/// The possible presence in the table of connections to frontends in mode dsr: [`NONE`](crate::dsr::NONE),
/// [`SOUGHT`](crate::dsr::SOUGHT) or [`SOME`](crate::dsr::SOME). Written by the programs too.
pub const TRACKED: u32 = 1;

/// Nonzero if packets to frontends that are of no connection we know, and begin none, go on to the stack.
pub const UNKNOWN_CONNECTIONS: u32 = 2;

/// The ports that frontends have: the [`port_group`](crate::port_group) of each.
pub const FRONTEND_PORTS: u32 = 3;

/// Nonzero if any [`Path`](crate::Path) has an MTU.
pub const NARROW: u32 = 4;

/// Nonzero if the host's IPv4 routes may depend on more than the destination.
pub const RULES_V4: u32 = 5;

/// As [`RULES_V4`], of IPv6.
pub const RULES_V6: u32 = 6;
