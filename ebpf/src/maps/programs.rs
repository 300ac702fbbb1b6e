//! The programs that the attached ones hand packets over to.

use aya_ebpf::{bindings::__sk_buff, macros::map, maps::ProgramArray, programs::TcContext};
use shunt_common::{Hook, Ipv6Program};

/// The programs of IPv6 by [`Ipv6Program`].
#[map]
static IPV6_PROGRAMS: ProgramArray = ProgramArray::with_max_entries(Ipv6Program::COUNT, 0);

/// Has the program of IPv6 for this hook take the place of this one. Returns only if it is not there.
#[inline(always)]
pub(crate) fn hand_over(context: *mut __sk_buff, is_ethernet: bool, hook: Hook) {
    let program = match (is_ethernet, hook) {
        (true, Hook::Ingress) => Ipv6Program::Ingress,
        (true, Hook::Egress) => Ipv6Program::Egress,
        (false, Hook::Ingress) => Ipv6Program::IngressL3,
        (false, Hook::Egress) => Ipv6Program::EgressL3,
    };
    // SAFETY: nothing is left to be dropped, and what the other program returns is the verdict.
    unsafe { IPV6_PROGRAMS.tail_call(&TcContext::new(context), program as u32) };
}
