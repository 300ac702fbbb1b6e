//! BPF subprograms: parsing, rewriting, the guard, and IPv6's fast path and extension headers.
//!
//! The verifier looks at a function that has a global name once, for all arguments that its types
//! allow, and takes any result for possible where it is called ("global functions",
//! `Documentation/bpf/verifier.rst`). Inlined, all that follows would be looked at once more for
//! each way to read a packet, beyond the limit of a million instructions. Each function has a
//! stack frame of its own besides; a chain of them has 512 bytes.

use shunt_common::{Cell, Counter, Hook, Tuple, V4, V6};

use crate::{
    ctx::{
        access::{Access, AccessError},
        tc::Tc,
        verdict::Verdict,
    },
    maps::{conntrack::Tracked as _, counters::count},
    packet::{
        error::ParseError,
        extensions::{self, WalkExtensions},
        family::Family,
        foreign, ipv4,
        link::Link,
        parse::parse,
        parsed::Packet,
    },
    pipeline::{
        dsr, fast_path, guard,
        leaving::{self, Leave},
        masquerade,
        opened::Opened,
        program::Program,
    },
    rewrite::tuple::rewrite,
};

/// Makes the subprograms of a family and of one kind of context. They are given references; the
/// verifier does not know, and wants the null pointer looked for.
macro_rules! subprograms {
    ($family:ty, $context:ty: $parse:ident, $foreign:ident, $guard:ident, $rewrite:ident, $dispatch:ident, $envelope:ident, $mss:ident, $elsewhere:ident, $leave:ident, $settle:ident, $fast_path:ident) => {
        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $parse(
            context: *mut <$context as Access>::Raw,
            link: u32,
            packet: *mut Packet<$family>,
        ) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            let Some(packet) = (unsafe { packet.as_mut() }) else {
                return 0;
            };
            parse_and_count(&<$context>::from_raw(context), of_number(link), packet).into()
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $foreign(
            context: *mut <$context as Access>::Raw,
            link: u32,
            packet: *mut Packet<$family>,
        ) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            let Some(packet) = (unsafe { packet.as_mut() }) else {
                return 0;
            };
            let (context, link) = (<$context>::from_raw(context), of_number(link));
            let is_read = guard::may_concern::<$family>(&context, link)
                && foreign::read(&context, link, packet);
            is_read.into()
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $guard(
            context: *mut <$context as Access>::Raw,
            packet: *const Packet<$family>,
        ) -> i32 {
            // SAFETY: null, or the reference that the only caller has.
            let verdict = match unsafe { packet.as_ref() } {
                Some(packet) => guard::judge(&<$context>::from_raw(context), packet),
                None => Verdict::PASS,
            };
            Verdict::to_value(Some(verdict))
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $rewrite(
            context: *mut <$context as Access>::Raw,
            packet: *const Packet<$family>,
            new: *const Tuple<$family>,
        ) -> u32 {
            // SAFETY: null, or the references that the only caller has.
            let (Some(packet), Some(new)) = (unsafe { (packet.as_ref(), new.as_ref()) }) else {
                return 0;
            };
            rewrite(&<$context>::from_raw(context), packet, new)
                .is_ok()
                .into()
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $dispatch(
            context: *mut <$context as Access>::Raw,
            packet: *mut Packet<$family>,
            cell: u64,
        ) -> i32 {
            // SAFETY: null, or the reference that the only caller has.
            let Some(packet) = (unsafe { packet.as_mut() }) else {
                return Verdict::to_value(None);
            };
            let (context, cell) = (<$context>::from_raw(context), Cell::from_word(cell));
            Verdict::to_value(dsr::dispatch(&context, packet, cell))
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $envelope(
            context: *mut <$context as Access>::Raw,
            link: u32,
            packet: *mut Packet<$family>,
        ) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            let Some(packet) = (unsafe { packet.as_mut() }) else {
                return 0;
            };
            dsr::open(&<$context>::from_raw(context), of_number(link), packet) as u32
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $mss(
            context: *mut <$context as Access>::Raw,
            packet: *const Packet<$family>,
            translated: *const Tuple<$family>,
        ) -> u32 {
            // SAFETY: null, or the references that the only caller has.
            let (packet, translated) = unsafe { (packet.as_ref(), translated.as_ref()) };
            let (Some(packet), Some(translated)) = (packet, translated) else {
                return 0;
            };
            let context = <$context>::from_raw(context);
            dsr::lower_mss(&context, packet, translated).is_ok().into()
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $elsewhere(
            context: *mut <$context as Access>::Raw,
            index: u32,
            version: u32,
        ) -> u32 {
            let context = <$context>::from_raw(context);
            let table = <$family>::connections();
            let found = table
                .at(index, version)
                .and_then(|half| Some((table.read(half)?.translated(), half.meta.protocol())));
            found
                .is_some_and(|(leaves, protocol)| {
                    leaving::is_elsewhere::<$family>(&context, &leaves, protocol)
                })
                .into()
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $leave(
            context: *mut <$context as Access>::Raw,
            packet: *const Packet<$family>,
            translated: *const Tuple<$family>,
        ) -> u64 {
            // SAFETY: null, or the references that the only caller has.
            let (packet, translated) = unsafe { (packet.as_ref(), translated.as_ref()) };
            let leave = match (packet, translated) {
                (Some(packet), Some(translated)) => {
                    leaving::decide(&<$context>::from_raw(context), packet, translated)
                }
                _ => Leave::Here,
            };
            leave.to_value()
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $settle(
            context: *mut <$context as Access>::Raw,
            backend: u32,
            cell: u64,
        ) -> u64 {
            let (context, cell) = (<$context>::from_raw(context), Cell::from_word(cell));
            masquerade::settle::<$family>(&context, backend, cell).word()
        }

        impl Program<$context> for $family {
            #[inline(always)]
            fn fast_path(context: &$context, link: Link, hook: Hook) -> Option<Verdict> {
                $fast_path(context, link, hook)
            }

            #[inline(always)]
            fn parse(context: &$context, link: Link, packet: &mut Packet<Self>) -> bool {
                $parse(context.raw(), link as u32, packet) != 0
            }

            #[inline(always)]
            fn read_foreign(context: &$context, link: Link, packet: &mut Packet<Self>) -> bool {
                $foreign(context.raw(), link as u32, packet) != 0
            }

            #[inline(always)]
            fn guard(context: &$context, packet: &Packet<Self>) -> Verdict {
                Verdict::from_value($guard(context.raw(), packet)).unwrap_or(Verdict::PASS)
            }

            #[inline(always)]
            fn dispatch(
                context: &$context,
                packet: &mut Packet<Self>,
                cell: Cell,
            ) -> Option<Verdict> {
                Verdict::from_value($dispatch(context.raw(), packet, cell.word()))
            }

            #[inline(always)]
            fn open_envelope(context: &$context, link: Link, packet: &mut Packet<Self>) -> Opened {
                Opened::of_number($envelope(context.raw(), link as u32, packet))
            }

            #[inline(always)]
            fn lower_mss(
                context: &$context,
                packet: &Packet<Self>,
                translated: &Tuple<Self>,
            ) -> bool {
                $mss(context.raw(), packet, translated) != 0
            }

            #[inline(always)]
            fn is_elsewhere(context: &$context, index: u32, version: u32) -> bool {
                $elsewhere(context.raw(), index, version) != 0
            }

            #[inline(always)]
            fn leave(context: &$context, packet: &Packet<Self>, translated: &Tuple<Self>) -> Leave {
                Leave::from_value($leave(context.raw(), packet, translated))
            }

            #[inline(always)]
            fn settle(context: &$context, backend: u32, cell: Cell) -> Cell {
                Cell::from_word($settle(context.raw(), backend, cell.word()))
            }

            #[inline(always)]
            fn rewrite(
                context: &$context,
                packet: &Packet<Self>,
                new: &Tuple<Self>,
            ) -> Result<(), AccessError> {
                match $rewrite(context.raw(), packet, new) {
                    0 => Err(AccessError::Refused),
                    _ => Ok(()),
                }
            }
        }
    };
}

subprograms!(V4, Tc: parse_v4, foreign_v4, guard_v4, rewrite_v4, dispatch_v4, envelope_v4, mss_v4, elsewhere_v4, leaving_v4, settle_v4, fast_path_v4);
subprograms!(V6, Tc: parse_v6, foreign_v6, guard_v6, rewrite_v6, dispatch_v6, envelope_v6, mss_v6, elsewhere_v6, leaving_v6, settle_v6, fast_path_v6);

/// The kind of link that a caller gave as its number.
#[inline(always)]
fn of_number(link: u32) -> Link {
    if link == Link::Ethernet as u32 {
        Link::Ethernet
    } else {
        Link::None
    }
}

/// Reads the packet into `packet`. Returns whether it concerns us; what would have been ours but for
/// its form is counted.
#[inline(always)]
fn parse_and_count<F: Family, C: WalkExtensions>(
    context: &C,
    link: Link,
    packet: &mut Packet<F>,
) -> bool {
    match parse(context, link, packet) {
        Ok(()) => return true,
        Err(ParseError::Truncated) => count(Counter::PassTruncated),
        Err(ParseError::TooManyHeaders) => count(Counter::PassHeaders),
        Err(ParseError::Foreign) => {}
    }
    false
}

/// Inlined: its few variables cost the programs no stack, and a call would cost it a tenth.
#[inline(always)]
fn fast_path_v4<C: Access>(context: &C, link: Link, hook: Hook) -> Option<Verdict>
where
    V4: Program<C>,
{
    fast_path::handle::<V4, C>(context, link, hook)
}

/// At ingress its variables have a frame of their own: with those of the general path, the deepest chain of functions
/// would have more than 512 bytes.
#[inline(always)]
fn fast_path_v6(context: &Tc, link: Link, hook: Hook) -> Option<Verdict> {
    let function = match (hook, link) {
        (Hook::Ingress, Link::Ethernet) => fast_ingress_v6,
        (Hook::Ingress, Link::None) => fast_ingress_v6_l3,
        (Hook::Egress, _) => return fast_path::handle::<V6, Tc>(context, link, hook),
    };
    Verdict::from_value(function(context.raw()))
}

/// Makes functions of IPv6's fast path at ingress.
macro_rules! fast_paths {
    ($($name:ident: $link:ident,)*) => {
        $(
            #[inline(never)]
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name(context: *mut <Tc as Access>::Raw) -> i32 {
                let context = Tc::from_raw(context);
                let verdict = fast_path::handle::<V6, Tc>(&context, Link::$link, Hook::Ingress);
                Verdict::to_value(verdict)
            }
        )*
    };
}

fast_paths! {
    fast_ingress_v6: Ethernet,
    fast_ingress_v6_l3: None,
}

/// [`extensions::walk`].
#[inline(never)]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn walk_extensions(
    context: *mut <Tc as Access>::Raw,
    begin: u32,
    protocol: u32,
) -> u64 {
    extensions::walk(&Tc::from_raw(context), begin, protocol)
}

/// [`ipv4::walk_options`].
#[inline(never)]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn walk_options(
    context: *mut <Tc as Access>::Raw,
    begin: u32,
    end: u32,
) -> u32 {
    ipv4::walk_options(&Tc::from_raw(context), begin, end)
}

/// [`ipv4::is_long_header_intact`].
#[inline(never)]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn is_header_intact(
    context: *mut <Tc as Access>::Raw,
    begin: u32,
    end: u32,
) -> u32 {
    ipv4::is_long_header_intact(&Tc::from_raw(context), begin, end).into()
}

impl WalkExtensions for Tc {
    #[inline(always)]
    fn walk_extensions(&self, begin: u32, protocol: u32) -> u64 {
        walk_extensions(self.raw(), begin, protocol)
    }

    #[inline(always)]
    fn walk_options(&self, begin: u32, end: u32) -> u32 {
        walk_options(self.raw(), begin, end)
    }

    #[inline(always)]
    fn is_header_intact(&self, begin: u32, end: u32) -> bool {
        is_header_intact(self.raw(), begin, end) != 0
    }
}
