//! Outcome of a packet at a node: its kernel programs, built for the host, run over copies of its tables.
//!
//! A [`Dump`] is all that a packet's way depends on, at one instant: an agent or a file provides it.
//! [`trace`] returns what would become of a packet, in steps; nothing is changed by it.

#![forbid(unsafe_code)]

mod anonymous;
mod dump;
mod trace;

pub use self::anonymous::{AnonymousError, Key, anonymous};

pub use self::dump::{
    content::{
        Frontend, Hop, Interface, LinkAddress, Neighbour, Node, Route, RouteKind, Rule, RuleAction,
        Share, Sockets, VERSION,
    },
    error::DumpError,
    file::{read, write},
    hex::Hex,
    record::{BYTE_ORDER, Collector, Dump, Record, table_records},
    table::{Shape, Table},
};
pub use self::trace::{
    ends::{Destination, Sender},
    error::TraceError,
    fib::Fib,
    question::{Flags, Question, Transport},
    run::{Part, Told, Trace, trace},
    step::{End, Hook, How, Member, Set, SourceChange, Step},
};
