//! Functions in the kernel's sense: parsing, rewriting and the fast path.
//!
//! The verifier looks at a function that has a global name once, for all arguments that its types
//! allow, and takes any result for possible where it is called ("global functions",
//! `Documentation/bpf/verifier.rst`). Inlined, all that follows would be looked at once more for
//! each way to read a packet, beyond the limit of a million instructions. Each function has a
//! stack frame of its own besides; a chain of them has 512 bytes.

use aya_ebpf::{bindings::__sk_buff, programs::TcContext};
use shunt_common::{Hook, Tuple, V4, V6};

use crate::{
    fast_path,
    packet::{Link, Packet},
    rewrite::rewrite_here,
    verdict::Verdict,
};

/// A family's functions.
pub trait Functions: shunt_common::Family {
    /// [`fast_path::handle`].
    fn fast_path(context: &TcContext, link: Link, hook: Hook) -> Option<Verdict>;

    /// [`Packet::parse_here`].
    fn parse(context: &TcContext, link: Link, packet: &mut Packet<Self>) -> bool;

    /// [`rewrite_here`]; gives whether it succeeded.
    fn rewrite(context: &TcContext, packet: &Packet<Self>, new: &Tuple<Self>) -> bool;
}

/// Makes a family's functions. They are given references; the verifier does not know, and wants
/// the null pointer looked for.
macro_rules! functions {
    ($family:ty: $parse:ident, $rewrite:ident, $fast_path:ident) => {
        #[inline(never)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $parse(
            context: *mut __sk_buff,
            link: u32,
            packet: *mut Packet<$family>,
        ) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            let Some(packet) = (unsafe { packet.as_mut() }) else {
                return 0;
            };
            let link = if link == Link::Ethernet as u32 {
                Link::Ethernet
            } else {
                Link::None
            };
            packet.parse_here(&TcContext::new(context), link).into()
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $rewrite(
            context: *mut __sk_buff,
            packet: *const Packet<$family>,
            new: *const Tuple<$family>,
        ) -> u32 {
            // SAFETY: null, or the references that the only caller has.
            let (Some(packet), Some(new)) = (unsafe { (packet.as_ref(), new.as_ref()) }) else {
                return 0;
            };
            rewrite_here(&TcContext::new(context), packet, new)
                .is_ok()
                .into()
        }

        impl Functions for $family {
            #[inline(always)]
            fn fast_path(context: &TcContext, link: Link, hook: Hook) -> Option<Verdict> {
                $fast_path(context, link, hook)
            }

            #[inline(always)]
            fn parse(context: &TcContext, link: Link, packet: &mut Packet<Self>) -> bool {
                $parse(context.skb.skb, link as u32, packet) != 0
            }

            #[inline(always)]
            fn rewrite(context: &TcContext, packet: &Packet<Self>, new: &Tuple<Self>) -> bool {
                $rewrite(context.skb.skb, packet, new) != 0
            }
        }
    };
}

functions!(V4: parse_v4, rewrite_v4, fast_path_v4);
functions!(V6: parse_v6, rewrite_v6, fast_path_v6);

/// Inlined: its few variables cost the programs no stack, and a call would cost it a tenth.
#[inline(always)]
fn fast_path_v4(context: &TcContext, link: Link, hook: Hook) -> Option<Verdict> {
    fast_path::handle::<V4>(context, link, hook)
}

#[inline(always)]
fn fast_path_v6(context: &TcContext, link: Link, hook: Hook) -> Option<Verdict> {
    let function = match (link, hook) {
        (Link::Ethernet, Hook::Ingress) => ingress_v6,
        (Link::Ethernet, Hook::Egress) => egress_v6,
        (Link::None, Hook::Ingress) => ingress_v6_l3,
        (Link::None, Hook::Egress) => egress_v6_l3,
    };
    Verdict::of_value(function(context.skb.skb))
}

/// Makes functions of IPv6's fast path.
macro_rules! fast_paths {
    ($($name:ident: $link:ident $hook:ident,)*) => {
        $(
            #[inline(never)]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(context: *mut __sk_buff) -> i32 {
                let context = TcContext::new(context);
                let verdict =
                    fast_path::handle::<V6>(&context, Link::$link, Hook::$hook);
                Verdict::to_value(verdict)
            }
        )*
    };
}

fast_paths! {
    ingress_v6: Ethernet Ingress,
    egress_v6: Ethernet Egress,
    ingress_v6_l3: None Ingress,
    egress_v6_l3: None Egress,
}
