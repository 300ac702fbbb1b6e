//! Verdict of a program on a packet.

use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS, XDP_REDIRECT, XDP_TX};

/// The end of a packet's way through a program. The numbers are TC's, so that they cost its
/// programs nothing; another program type gives its own for them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict(i32);

impl Verdict {
    /// On to the next program on the hook, then the stack: `TC_ACT_UNSPEC`, and never `TC_ACT_OK`,
    /// which would end the chain before a CNI's own programs.
    pub(crate) const PASS: Self = Self(-1);
    /// Dropped; the reason was counted. `TC_ACT_SHOT`.
    pub(crate) const DROP: Self = Self(2);
    /// Sent where a call of the context has directed it. `TC_ACT_REDIRECT`.
    pub(crate) const REDIRECT: Self = Self(7);
    /// Sent back out of the interface that it came in by, without any call: `XDP_TX`, which TC has
    /// nothing like.
    pub(crate) const BACK: Self = Self(3);

    /// No verdict, where a BPF subprogram gives one or none: `TC_ACT_OK`.
    const NONE: Self = Self(0);

    /// A verdict or none, as a BPF subprogram returns it.
    #[inline(always)]
    pub(crate) fn to_value(verdict: Option<Self>) -> i32 {
        verdict.unwrap_or(Self::NONE).0
    }

    /// The verdict, if a BPF subprogram has returned one.
    #[inline(always)]
    pub(crate) fn from_value(value: i32) -> Option<Self> {
        (value != Self::NONE.0).then_some(Self(value))
    }

    /// The number that a TC program returns.
    #[inline(always)]
    pub(crate) const fn tc_action(self) -> i32 {
        self.0
    }

    /// The number that an XDP program returns.
    #[inline(always)]
    pub(crate) const fn xdp_action(self) -> u32 {
        match self {
            Self::DROP => XDP_DROP,
            Self::BACK => XDP_TX,
            Self::REDIRECT => XDP_REDIRECT,
            _ => XDP_PASS,
        }
    }
}
