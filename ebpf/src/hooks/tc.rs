//! TC programs. Those of IPv6 are attached to nothing: the others hand packets over to them.

use aya_ebpf::{macros::classifier, programs::TcContext};
use shunt_common::{Hook, V6};

use crate::{
    ctx::tc::Tc,
    packet::link::Link,
    pipeline::entry::{handle, handle_family},
};

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

/// The rest of [`tc_ingress`] for IPv6.
#[classifier]
#[inline(always)]
pub(crate) fn ingress_v6(context: TcContext) -> i32 {
    handle_family::<V6>(&Tc::from(context), Link::Ethernet, Hook::Ingress).tc_action()
}

/// The rest of [`tc_egress`] for IPv6.
#[classifier]
#[inline(always)]
pub(crate) fn egress_v6(context: TcContext) -> i32 {
    handle_family::<V6>(&Tc::from(context), Link::Ethernet, Hook::Egress).tc_action()
}

/// The rest of [`tc_ingress_l3`] for IPv6.
#[classifier]
#[inline(always)]
pub(crate) fn ingress_v6_l3(context: TcContext) -> i32 {
    handle_family::<V6>(&Tc::from(context), Link::None, Hook::Ingress).tc_action()
}

/// The rest of [`tc_egress_l3`] for IPv6.
#[classifier]
#[inline(always)]
pub(crate) fn egress_v6_l3(context: TcContext) -> i32 {
    handle_family::<V6>(&Tc::from(context), Link::None, Hook::Egress).tc_action()
}
