//! Entry of the XDP program.

use shunt_common::{Counter, V4, V6, dsr::NONE, registry::Packets};

use crate::{
    ctx::{access::Access, verdict::Verdict, xdp::Xdp},
    forward::{fib::Routed, next_hop::WayIndex},
    lb::{draw::Draw, maglev::Maglev},
    maps::{
        addresses::is_any_own,
        counters::count,
        dsr::{located, may_be_tracked},
        guarded::Filtered,
        handover::is_going_on,
    },
    nat::open::Open,
    packet::{
        family::{Family as _, Header as _},
        link::Link,
    },
    pipeline::uplink::{
        dsr, established,
        opening::{self, Fate},
    },
};

/// An address family in programs that have their packets as `C`, where a driver has them.
pub(crate) trait Uplink<C: Access>: Routed + Open + Draw + Maglev {
    /// [`dsr::handle`].
    fn stateless(context: &C, located: u64) -> Option<Verdict>;

    /// [`established::handle`].
    fn established(context: &C, has_frontends: bool, may_wrap: bool) -> Option<Verdict>;

    /// [`opening::judge`].
    fn judge(context: &C) -> Fate;

    /// [`opening::open`].
    fn open(context: &C, backend: u32, way: WayIndex) -> Verdict;
}

/// Handles a packet, by its address family.
#[inline(always)]
pub(crate) fn handle<C: Access>(context: &C) -> Verdict
where
    V4: Uplink<C>,
    V6: Uplink<C>,
{
    let verdict = match context.ethertype() {
        V4::ETHERTYPE => handle_family::<V4, C>(context),
        V6::ETHERTYPE => handle_family::<V6, C>(context),
        _ => Verdict::PASS,
    };
    if verdict != Verdict::PASS {
        count(Counter::Xdp);
    }
    verdict
}

#[inline(always)]
fn handle_family<F: Uplink<C>, C: Access>(context: &C) -> Verdict {
    let Ok(header) = context.at::<F::Header>(Link::Ethernet.header_length()) else {
        return Verdict::PASS;
    };
    // Nearly everything that is not ours ends here, before any call. What is of a connection all the
    // same, to a frontend that is gone or from an address that SNAT gave before, the TC program finds.
    let destination = header.destination();
    let filtered = Filtered::of::<F>(&destination);
    let has_frontends = filtered.has_frontends();
    if !has_frontends && !filtered.is_source() {
        return Verdict::PASS;
    }
    // While another table hands over, TC's programs translate.
    let packets = F::packets();
    if packets != Packets::Translated as u32 && (packets == Packets::Pass as u32 || is_going_on()) {
        return Verdict::PASS;
    }
    let located = if has_frontends { located() } else { NONE };
    let may_wrap = located != NONE;
    // Where no connection can be one of a frontend in mode dsr, none is looked for.
    let goes_first = may_wrap && !may_be_tracked() && !is_any_own();
    if goes_first && let Some(verdict) = F::stateless(context, located) {
        return verdict;
    }
    if let Some(verdict) = F::established(context, has_frontends, may_wrap) {
        return verdict;
    }
    if may_wrap
        && !goes_first
        && let Some(verdict) = F::stateless(context, located)
    {
        return verdict;
    }
    // One after the other, not one by the other: the stack has no room for that before Linux 6.8.
    match F::judge(context) {
        Fate::Verdict(verdict) => verdict,
        Fate::Opens(backend, way) => F::open(context, backend, way),
    }
}

/// Makes a family's BPF subprograms for one kind of context; on what they are for see
/// [`crate::pipeline::subprograms`].
macro_rules! subprograms {
    ($family:ty, $context:ty: $stateless:ident, $established:ident, $judge:ident, $open:ident) => {
        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $stateless(
            context: *mut <$context as Access>::Raw,
            located: u64,
        ) -> i32 {
            let context = <$context>::from_raw(context);
            Verdict::to_value(dsr::handle::<$family>(&context, located))
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $established(
            context: *mut <$context as Access>::Raw,
            has_frontends: u32,
            may_wrap: u32,
        ) -> i32 {
            let context = <$context>::from_raw(context);
            let (has_frontends, may_wrap) = (has_frontends != 0, may_wrap != 0);
            Verdict::to_value(established::handle::<$family>(
                &context,
                has_frontends,
                may_wrap,
            ))
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $judge(context: *mut <$context as Access>::Raw) -> u64 {
            opening::judge::<$family>(&<$context>::from_raw(context)).to_value()
        }

        #[inline(never)]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $open(
            context: *mut <$context as Access>::Raw,
            backend: u32,
            way: u32,
        ) -> i32 {
            let (context, way) = (<$context>::from_raw(context), WayIndex::of_number(way));
            Verdict::to_value(Some(opening::open::<$family>(&context, backend, way)))
        }

        impl Uplink<$context> for $family {
            #[inline(always)]
            fn stateless(context: &$context, located: u64) -> Option<Verdict> {
                Verdict::from_value($stateless(context.raw(), located))
            }

            #[inline(always)]
            fn established(
                context: &$context,
                has_frontends: bool,
                may_wrap: bool,
            ) -> Option<Verdict> {
                let verdict = $established(context.raw(), has_frontends.into(), may_wrap.into());
                Verdict::from_value(verdict)
            }

            #[inline(always)]
            fn judge(context: &$context) -> Fate {
                Fate::from_value($judge(context.raw()))
            }

            #[inline(always)]
            fn open(context: &$context, backend: u32, way: WayIndex) -> Verdict {
                let verdict = $open(context.raw(), backend, way.number());
                Verdict::from_value(verdict).unwrap_or(Verdict::PASS)
            }
        }
    };
}

subprograms!(V4, Xdp: uplink_stateless_v4, uplink_established_v4, uplink_judge_v4, uplink_open_v4);
subprograms!(V6, Xdp: uplink_stateless_v6, uplink_established_v6, uplink_judge_v6, uplink_open_v6);
