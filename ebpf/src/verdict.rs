//! What a program says of a packet.

use aya_ebpf::bindings::{TC_ACT_OK, TC_ACT_REDIRECT, TC_ACT_SHOT, TC_ACT_UNSPEC};

/// The end of a packet's way through a program, as the kernel takes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Verdict(i32);

impl Verdict {
    /// On to the next program on the hook, then the stack: never `TC_ACT_OK`, which would end the
    /// chain before a CNI's own programs.
    pub const PASS: Self = Self(TC_ACT_UNSPEC);
    /// Dropped; the reason was counted.
    pub const DROP: Self = Self(TC_ACT_SHOT);
    /// Out through the interface that `bpf_redirect` was told.
    pub const REDIRECT: Self = Self(TC_ACT_REDIRECT);

    /// No verdict, where one of the kernel's functions gives one or none.
    const NONE: Self = Self(TC_ACT_OK);

    /// A verdict or none as a function's value.
    #[inline(always)]
    pub fn to_value(verdict: Option<Self>) -> i32 {
        verdict.unwrap_or(Self::NONE).0
    }

    /// What a function's value says.
    #[inline(always)]
    pub fn of_value(value: i32) -> Option<Self> {
        (value != Self::NONE.0).then_some(Self(value))
    }
}

impl From<Verdict> for i32 {
    #[inline(always)]
    fn from(verdict: Verdict) -> Self {
        verdict.0
    }
}
