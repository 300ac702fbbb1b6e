//! What a program says of a packet.

use aya_ebpf::bindings::{TC_ACT_OK, TC_ACT_REDIRECT, TC_ACT_SHOT, TC_ACT_UNSPEC};

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
            Verdict::Drop => SHOT,
            Verdict::Redirect => REDIRECT,
        }
    }
}

impl Verdict {
    /// What a function that gives a verdict gives for none: `TC_ACT_OK`, which is never one.
    pub const NONE: i32 = TC_ACT_OK as i32;

    /// The verdict that a function gave, if it gave one.
    #[inline(always)]
    pub const fn of_function(value: i32) -> Option<Self> {
        match value {
            TC_ACT_UNSPEC => Some(Self::Pass),
            SHOT => Some(Self::Drop),
            REDIRECT => Some(Self::Redirect),
            _ => None,
        }
    }
}

const SHOT: i32 = TC_ACT_SHOT as i32;
const REDIRECT: i32 = TC_ACT_REDIRECT as i32;
