//! The programs' atomic instructions: processors are at one table at the same time, and few races of theirs show in a
//! test.

use std::{collections::BTreeSet, os::fd::AsFd as _};

use shunt_datapath::{Datapath, DatapathOptions};

use super::{
    listing::{ADD, COMPARE_EXCHANGE, Listing},
    needs_root,
};

/// Functions of the connection table that take a slot, or change a word of it, only if it is as it was read.
const EXCHANGING: [&str; 3] = ["win", "forget", "observe"];

#[test]
fn slots_are_taken_and_connections_counted_by_one_instruction_each() {
    needs_root!();
    let mut datapath = Datapath::load(&DatapathOptions::default()).unwrap();
    for (program, family) in [(Datapath::INGRESS, "v4"), (Datapath::INGRESS_V6, "v6")] {
        let program = datapath.program(program).unwrap().fd().unwrap();
        let listing = Listing::of(program.as_fd());
        let exchanging = listing.functions_with(COMPARE_EXCHANGE);
        let expected = EXCHANGING.map(|function| format!("{function}_{family}"));
        let missing: BTreeSet<_> = expected
            .iter()
            .filter(|function| !exchanging.contains(function.as_str()))
            .collect();
        assert!(missing.is_empty(), "{missing:?}: {exchanging:?}");
        let adding = listing.functions_with(ADD);
        let opening = format!("open_{family}");
        assert!(adding.contains(opening.as_str()), "{opening}: {adding:?}");
    }
}
