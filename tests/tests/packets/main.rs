//! Packet tests: the real programs, loaded into the kernel and run on single frames through
//! `BPF_PROG_TEST_RUN`. Whole output frames are compared, and journeys followed in which the
//! output of one hook is the input of the next.

mod address;
mod admission;
mod affinity;
mod any_packet;
mod budget;
mod clients;
mod connections;
mod dsr;
mod families;
mod flows;
mod fragments;
mod frame;
mod full_table;
mod guard;
mod headers;
mod hooks;
mod icmp_errors;
mod icmp_untouched;
mod lifetime;
mod links;
mod listing;
mod loading;
mod local_pods;
mod maglev;
mod maglev_transit;
mod masquerade;
mod masquerade_all;
mod mend;
mod node;
mod one_uplink;
mod opening_cost;
mod reject_limit;
mod reports;
mod sctp;
mod selection;
mod service_counters;
mod snat;
mod snat_ports;
mod splits;
mod states;
mod take_over;
mod test_run;
mod translation;
mod untouched;
mod world;
mod xdp;

/// Leaves the test, and says so, where the kernel's tables cannot be used.
macro_rules! needs_root {
    () => {
        if !shunt_tests::is_root() {
            eprintln!("skipped: needs root");
            return;
        }
    };
}
use needs_root;
