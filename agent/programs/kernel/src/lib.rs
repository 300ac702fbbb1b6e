//! A kernel's environment of its programs, in this process: tables in memory, helpers, contexts.
//!
//! It has the face of `aya_ebpf`, as far as Shunt's programs use that, so the same source is built for a kernel with
//! the one and for the host with the other. Nothing here touches a kernel. A [`world::World`] gives the kernel's
//! answers (the time, a random number, a route).
//!
//! Tables are statics of the programs, so there is one set of them in a process. A thread that has the
//! [`world::Turn`] may use them; every access out of turn is a bug that ends the process.

pub mod btf_maps;
mod context;
mod global;
pub mod helpers;
pub mod packet;
pub mod table;
pub mod world;

pub use aya_ebpf_bindings::bindings;
pub use aya_ebpf_cty as cty;
pub use aya_ebpf_macros as macros;
pub use context::EbpfContext;
pub use global::Global;

/// Contexts, as programs are given them.
pub mod programs {
    pub use crate::context::{SkBuff, SockAddrContext, TcContext, XdpContext};
}

/// A program's log: nothing, on the host.
#[macro_export]
macro_rules! debug {
    ($context:expr, $text:literal $(, $value:expr)* $(,)?) => {{
        let _ = &$context;
        $(let _ = &$value;)*
    }};
}
