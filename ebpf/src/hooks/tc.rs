//! TC programs.

use aya_ebpf::{macros::classifier, programs::TcContext};
use shunt_common::Hook;

use crate::{ctx::tc::Tc, packet::link::Link, pipeline::entry::handle};

/// Hook: ingress of a client's interface, before routing and netfilter.
#[classifier]
#[inline(always)]
pub(crate) fn tc_ingress(context: TcContext) -> i32 {
    handle(&Tc::from(context), Link::Ethernet, Hook::Ingress).tc_action()
}

/// Hook: egress of a client's interface, after netfilter.
#[classifier]
#[inline(always)]
pub(crate) fn tc_egress(context: TcContext) -> i32 {
    handle(&Tc::from(context), Link::Ethernet, Hook::Egress).tc_action()
}

/// As [`tc_ingress`], on an interface whose packets have no link header.
#[classifier]
#[inline(always)]
pub(crate) fn tc_ingress_l3(context: TcContext) -> i32 {
    handle(&Tc::from(context), Link::None, Hook::Ingress).tc_action()
}

/// As [`tc_egress`], on an interface whose packets have no link header.
#[classifier]
#[inline(always)]
pub(crate) fn tc_egress_l3(context: TcContext) -> i32 {
    handle(&Tc::from(context), Link::None, Hook::Egress).tc_action()
}
