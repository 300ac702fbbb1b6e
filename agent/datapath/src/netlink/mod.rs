//! What the kernel lists, and tells of as it changes, through rtnetlink.

pub(crate) mod dump;
pub(crate) mod links;
pub(crate) mod messages;
