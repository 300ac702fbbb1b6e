//! Packet tests: the real programs, loaded into the kernel and run on single frames through
//! `BPF_PROG_TEST_RUN`. Whole output frames are compared, and journeys followed in which the
//! output of one hook is the input of the next.

mod affinity;
mod clients;
mod connections;
mod frame;
mod full_table;
mod lifetime;
mod loading;
mod node;
mod opening_cost;
mod selection;
mod snat;
mod translation;
mod untouched;

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
