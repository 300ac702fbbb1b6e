//! Words that hold for all packets, which the agent changes while the programs run. Each begins at 0.

/// The number of words.
pub const WORDS: usize = 7;

/// Whether the node of any address is known: 0, then nothing goes on in an envelope, or another number, which changes
/// with whatever is known.
pub const LOCATED: u32 = 0;

/// Whether connections to frontends in mode dsr may be in the table: [`NONE`](crate::dsr::NONE),
/// [`SOUGHT`](crate::dsr::SOUGHT) or [`SOME`](crate::dsr::SOME). Written by the programs too.
pub const TRACKED: u32 = 1;

/// Whether packets to frontends that are of no connection we know, and begin none, go on to the stack: 0, or another
/// number.
pub const UNKNOWN_CONNECTIONS: u32 = 2;

/// The ports that frontends have: the [`port_group`](crate::port_group) of each.
pub const FRONTEND_PORTS: u32 = 3;

/// Whether any [`Path`](crate::Path) has an MTU: 0, or another number.
pub const NARROW: u32 = 4;

/// Whether the host's IPv4 routes may depend on more than the destination: 0, or another number.
pub const RULES_V4: u32 = 5;

/// As [`RULES_V4`], of IPv6.
pub const RULES_V6: u32 = 6;
