//! Shunt's kernel programs: thin entry points over small modules that are generic over the
//! address family.
//!
//! Every function is `#[inline(always)]`, for two reasons of the kernel's: a BPF function takes and
//! returns registers, not structures; and a function that is not inlined has its types in the
//! object's BTF, where the kernel refuses a Rust enum with fields ("Invalid member bits_offset").

#![cfg_attr(target_arch = "bpf", no_std, no_main)]

mod affinity;
mod answer;
mod config;
mod conntrack;
mod counters;
mod egress;
mod exit;
mod family;
mod frame;
mod icmp;
mod ingress;
mod ipv4;
mod maps;
mod open;
mod packet;
mod place;
mod rewrite;
mod route;
mod service;
mod turn;
mod verdict;

use aya_ebpf::{macros::classifier, programs::TcContext};
use shunt_common::V4;

use crate::family::Family as _;

/// Hook: ingress of a client's interface, before routing and netfilter.
#[classifier]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub fn tc_ingress(context: TcContext) -> i32 {
    if V4::carried_by(&context) {
        ingress::handle::<V4>(&context).into()
    } else {
        verdict::Verdict::Pass.into()
    }
}

/// Hook: egress of a client's interface, after netfilter.
#[classifier]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub fn tc_egress(context: TcContext) -> i32 {
    if V4::carried_by(&context) {
        egress::handle::<V4>(&context).into()
    } else {
        verdict::Verdict::Pass.into()
    }
}

/// What the kernel lets call its GPL-only helpers.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier rejects any program in which this could be reached.
    loop {}
}

/// The host builds this crate only to lint it.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
