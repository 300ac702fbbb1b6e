//! What a program says of a packet.

use aya_ebpf::bindings::{TC_ACT_REDIRECT, TC_ACT_SHOT, TC_ACT_UNSPEC};

/// The end of a packet's way through a program.
#[derive(Clone, Copy)]
pub enum Verdict {
    /// On to the next program on the hook, then the stack: never `TC_ACT_OK`, which would end the
    /// chain before a CNI's own programs.
    Pass,
    /// Dropped; the reason was counted.
    Drop,
    /// Out through the interface that `bpf_redirect` was told.
    Redirect,
}

impl From<Verdict> for i32 {
    #[inline(always)]
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => TC_ACT_UNSPEC,
            Verdict::Drop => TC_ACT_SHOT as Self,
            Verdict::Redirect => TC_ACT_REDIRECT as Self,
        }
    }
}
