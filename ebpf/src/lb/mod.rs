//! Load balancing: from what a client asks for to a backend.

pub(crate) mod affinity;
pub(crate) mod choice;
pub(crate) mod client;
pub(crate) mod draw;
pub(crate) mod flow;
pub(crate) mod foresight;
pub(crate) mod frontend;
pub(crate) mod key;
pub(crate) mod maglev;
pub(crate) mod sender;
