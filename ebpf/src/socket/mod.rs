//! System calls: a process that asks a frontend gets a socket to one of its backends, and sees
//! the frontend as the other side. No packet has to be translated then.

pub(crate) mod bind;
pub(crate) mod connect;
mod frontend;
mod guard;
pub(crate) mod kernel_thread;
mod peer;
mod process;
pub(crate) mod reply;
pub(crate) mod send;
pub(crate) mod storage;
