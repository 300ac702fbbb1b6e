//! Answers of an agent as text for people and as JSON, and the words of a command line that stand for them. They are the
//! same in `shunt`, which asks one agent, and in `kubectl shunt`, which asks all agents of a cluster.

#![forbid(unsafe_code)]

pub mod asked;
pub mod connection_counts;
pub mod connection_table;
pub mod duration;
pub mod elapsed;
pub mod event_line;
pub mod found;
pub mod frontend_table;
pub mod lookup_tables;
pub mod named;
pub mod output;
pub mod service_table;
pub mod split_table;
pub mod table;
pub mod transport;
