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
mod delivery;
mod egress;
mod exit;
mod extensions;
mod family;
mod fast_path;
mod fragments;
mod frame;
mod functions;
mod icmp;
mod ingress;
mod ipv4;
mod ipv6;
mod limit;
mod maps;
mod open;
mod packet;
mod place;
mod quote;
mod rewrite;
mod route;
mod service;
mod transport;
mod turn;
mod verdict;

use aya_ebpf::{macros::classifier, programs::TcContext};
use shunt_common::{V4, V6};
use shunt_object as _;

use crate::{family::Family as _, packet::Link, verdict::Verdict};

/// Hook: ingress of a client's interface, before routing and netfilter.
#[classifier]
#[inline(always)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub fn tc_ingress(context: TcContext) -> i32 {
    ingress(&context, Link::Ethernet).into()
}

/// Hook: egress of a client's interface, after netfilter.
#[classifier]
#[inline(always)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub fn tc_egress(context: TcContext) -> i32 {
    egress(&context, Link::Ethernet).into()
}

/// As [`tc_ingress`], on an interface whose packets have no link header.
#[classifier]
#[inline(always)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub fn tc_ingress_l3(context: TcContext) -> i32 {
    ingress(&context, Link::None).into()
}

/// As [`tc_egress`], on an interface whose packets have no link header.
#[classifier]
#[inline(always)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub fn tc_egress_l3(context: TcContext) -> i32 {
    egress(&context, Link::None).into()
}

#[inline(always)]
fn ingress(context: &TcContext, link: Link) -> Verdict {
    if is_of_vlan(context) {
        Verdict::PASS
    } else if V4::carried_by(context) {
        ingress::handle::<V4>(context, link)
    } else if V6::carried_by(context) {
        ingress::handle::<V6>(context, link)
    } else {
        Verdict::PASS
    }
}

#[inline(always)]
fn egress(context: &TcContext, link: Link) -> Verdict {
    if is_of_vlan(context) {
        Verdict::PASS
    } else if V4::carried_by(context) {
        egress::handle::<V4>(context, link)
    } else if V6::carried_by(context) {
        egress::handle::<V6>(context, link)
    } else {
        Verdict::PASS
    }
}

/// Whether the packet is of a VLAN: it only passes this interface, and is the VLAN's interface's,
/// which has programs of its own. VLAN 0 is none, but a priority (IEEE 802.1Q section 9.6).
#[inline(always)]
fn is_of_vlan(context: &TcContext) -> bool {
    // SAFETY: the context is the kernel's.
    unsafe { (*context.skb.skb).vlan_tci & 0x0fff != 0 }
}

/// The host builds this crate only to lint it.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
