//! Packet tests: the real programs, loaded into the kernel and run on single frames through
//! `BPF_PROG_TEST_RUN`. Whole output frames are compared, and journeys followed in which the
//! output of one hook is the input of the next.

mod address;
mod admission;
mod affinity;
mod any_packet;
mod atomics;
mod broken_headers;
mod budget;
mod client_share;
mod clients;
mod connections;
mod direct_datagrams;
mod direct_redirect;
mod dsr;
mod families;
mod flows;
mod forged;
mod fragments;
mod frame;
mod full_table;
mod guard;
mod headers;
mod hooks;
mod icmp_errors;
mod icmp_untouched;
mod late_choice;
mod lifetime;
mod links;
mod listing;
mod loading;
mod local_pods;
mod maglev;
mod maglev_transit;
mod masquerade;
mod masquerade_all;
mod masquerade_external;
mod mend;
mod narrow_ways;
mod node;
mod one_uplink;
mod opening_cost;
mod own_flow;
mod reject_limit;
mod reports;
mod sctp;
mod selection;
mod service_counters;
mod snat;
mod snat_ports;
mod splits;
mod states;
mod stations;
mod take_over;
mod test_run;
mod translation;
mod untouched;
mod ways;
mod world;
mod xdp;

/// Leaves the test, with a message, where the kernel's tables cannot be used.
macro_rules! needs_root {
    () => {
        if !shunt_tests::has_root() {
            return;
        }
    };
}
use needs_root;

/// Makes two tests of a function that is generic over the family, `NAME_v4` and `NAME_v6`, which need root. Their
/// nodes translate that family alone: the verifier takes half the time for it.
///
/// `NAME(FOR_V4; FOR_V6)` passes the one or the other to it; `NAME in SURROUNDING` calls it inside of that.
macro_rules! both_families {
    ($name:ident $(($($for_v4:expr),+; $($for_v6:expr),+))? $(in $surrounding:ident)?) => {
        pastey::paste! {
            $crate::both_families!(@one ONLY_V4 [<$name _v4>], $name::<$crate::world::V4>($($($for_v4),+)?) $(, $surrounding)?);
            $crate::both_families!(@one ONLY_V6 [<$name _v6>], $name::<$crate::world::V6>($($($for_v6),+)?) $(, $surrounding)?);
        }
    };
    (@one $family:ident $test:ident, $call:expr) => {
        #[test]
        fn $test() {
            $crate::needs_root!();
            $crate::node::with_families($crate::families::$family, || $call);
        }
    };
    (@one $family:ident $test:ident, $call:expr, $surrounding:ident) => {
        #[test]
        fn $test() {
            $crate::needs_root!();
            $surrounding(|| $crate::node::with_families($crate::families::$family, || $call));
        }
    };
}
use both_families;
