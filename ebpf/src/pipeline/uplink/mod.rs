//! A packet's way through the XDP program: transit in both directions, and what is dropped or
//! rejected. Everything else passes, untouched and unlearned of, to the TC program.

pub(crate) mod dsr;
pub(crate) mod entry;
pub(crate) mod established;
pub(crate) mod opening;
