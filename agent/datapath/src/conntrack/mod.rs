//! The conntrack table: who is in it, for how long, and who makes room.

pub(crate) mod clock;
pub(crate) mod collector;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod conntrack_table;
pub(crate) mod early_drops;
pub(crate) mod headroom;
pub(crate) mod lifetime;
pub(crate) mod sweep_schedule;
pub(crate) mod sweeping;
pub(crate) mod swept;
