//! A packet's way through a program: the fast path, or else parsing, NAT, and on.

pub mod egress;
pub mod entry;
pub mod fast_path;
pub mod forward;
pub mod ingress;
pub mod program;
pub mod subprograms;
