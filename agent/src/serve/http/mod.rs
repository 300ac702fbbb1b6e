//! HTTP servers: listeners that are tried until they can be had, and connections that
//! cannot keep others waiting.

pub(crate) mod accept;
pub(crate) mod answer;
pub(crate) mod keep;
pub(crate) mod listen;
pub(crate) mod server;
