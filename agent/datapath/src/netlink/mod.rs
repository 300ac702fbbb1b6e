//! The kernel's lists, and its reports as they change, through rtnetlink.

pub(crate) mod dump;
mod gre;
pub(crate) mod links;
pub(crate) mod messages;
pub(crate) mod stacked;
