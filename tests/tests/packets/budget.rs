//! Limits of a packet's way through the programs: lookups, and instructions.
//!
//! Read off the programs as the kernel has verified and translated them: array lookups are inlined there,
//! and what is left of calls is what costs. Of all ways through a function those count that end on the
//! fast path: whatever calls the general way's parser is cut off.

use std::{collections::HashMap, os::fd::AsFd as _};

use shunt_datapath::{Datapath, DatapathOptions};

use super::{
    listing::{Listing, Step},
    needs_root,
};

/// A lookup in a hash table, as the kernel calls it directly.
const LOOKUP: &str = "__htab_map_lookup_elem";
/// A call that only a packet that is rewritten comes by.
const REWRITE: &str = "bpf_l4_csum_replace";

/// The dearest way from some place on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    lookups: u32,
    instructions: u32,
}

impl Cost {
    fn dearer(self, other: Self) -> Self {
        Self {
            lookups: self.lookups.max(other.lookups),
            instructions: self.instructions.max(other.instructions),
        }
    }
}

/// A search for the dearest ways through one function.
struct Search<'a> {
    listing: &'a Listing,
    /// Functions at whose call a way is cut off.
    cut: Vec<usize>,
    /// By place, and whether the packet is to be rewritten yet; `None`: no such way leads on.
    known: HashMap<(usize, bool), Option<Cost>>,
}

impl Search<'_> {
    /// The dearest way from `place` to the function's end on which the packet is still to be
    /// rewritten, or is not.
    fn from(&mut self, place: usize, is_to_be_rewritten: bool) -> Option<Cost> {
        let at = (place, is_to_be_rewritten);
        if let Some(known) = self.known.get(&at) {
            return *known;
        }
        // A way that comes back here is none: no loop is on the fast path.
        self.known.insert(at, None);
        let mut lookups = 0;
        let mut still = is_to_be_rewritten;
        let next = place + 1;
        let on = match self.listing.steps[place].clone() {
            Step::Exit => (!still).then_some(Cost {
                lookups: 0,
                instructions: 0,
            }),
            Step::Function(function) if self.cut.contains(&function) => None,
            Step::Jump(there) => self.from(there, still),
            Step::Branch(there) => match (self.from(there, still), self.from(next, still)) {
                (Some(a), Some(b)) => Some(a.dearer(b)),
                (a, b) => a.or(b),
            },
            Step::Kernel(name) => {
                lookups = u32::from(name == LOOKUP);
                still &= name != REWRITE;
                self.from(next, still)
            }
            Step::Function(_) | Step::Next => self.from(next, still),
        };
        let cost = on.map(|on| Cost {
            lookups: on.lookups + lookups,
            instructions: on.instructions + 1,
        });
        self.known.insert(at, cost);
        cost
    }
}

/// A program as the kernel runs it, of an agent with other options than the default.
fn listed(change: impl FnOnce(&mut DatapathOptions), program: &'static str) -> Listing {
    let mut options = DatapathOptions {
        pod_cidrs: vec!["10.1.1.0/24".parse().unwrap()],
        ..DatapathOptions::default()
    };
    change(&mut options);
    let mut datapath = Datapath::load(&options).unwrap();
    let program = datapath.program(program).unwrap().fd().unwrap();
    Listing::of(program.as_fd())
}

/// The dearest fast ways through a function of a program: of a packet that is translated, and of any
/// other.
fn costs(listing: &Listing, function: &str) -> [Cost; 2] {
    let begin = listing.begins[listing.function(function)];
    let general = listing.names.iter().enumerate();
    let cut = general.filter(|(_, name)| name.starts_with("parse_v"));
    let cut: Vec<usize> = cut.map(|(number, _)| number).collect();
    assert_eq!(cut.len(), 1, "{:?}", listing.names);
    let mut search = Search {
        listing,
        cut,
        known: HashMap::new(),
    };
    // The programs are long, and each instruction of a way is a call here.
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(64 << 20)
            .spawn_scoped(scope, || {
                [true, false].map(|is_rewritten| search.from(begin, is_rewritten).unwrap())
            })
            .unwrap()
            .join()
            .unwrap()
    })
}

/// A change that needs more than these has to have a reason.
///
/// The dearest way is that of a FIN, whose end the table is given so that no third party can forge one. Those at the
/// egress were 440 and 540 before. A segment of data has no more than it had. Seven
/// more decide whether a reply may have to leave by another interface.
#[test]
fn an_established_packet_costs_no_lookup_in_a_hash() {
    needs_root!();
    for (program, function, lookups, lookups_of_others, instructions) in [
        (Datapath::INGRESS, Datapath::INGRESS, 0, 1, 588),
        (Datapath::INGRESS_V6, "fast_ingress_v6", 0, 1, 720),
        // A packet from a port in whose group some frontend has its own, and an address with frontends.
        (Datapath::EGRESS, Datapath::EGRESS, 0, 1, 487),
        (Datapath::EGRESS_V6, Datapath::EGRESS_V6, 0, 1, 600),
    ] {
        let [translated, others] = costs(&listed(|_| (), program), function);
        eprintln!("{function}: {translated:?}, others {others:?}");
        assert_eq!(translated.lookups, lookups, "{function}: {translated:?}");
        assert_eq!(others.lookups, lookups_of_others, "{function}: {others:?}");
        assert!(
            translated.instructions <= instructions,
            "{function}: {} instructions are more than {instructions}",
            translated.instructions
        );
    }
}

#[test]
fn delivery_in_one_hop_costs_at_most_one_lookup() {
    needs_root!();
    let listing = listed(|options| options.redirect = true, Datapath::INGRESS);
    let [translated, _] = costs(&listing, Datapath::INGRESS);
    assert_eq!(translated.lookups, 1, "the peers at times");
}

/// The dearest way through the function that counts a packet for its service port.
fn counting(listing: &Listing) -> Cost {
    let mut search = Search {
        listing,
        cut: Vec::new(),
        known: HashMap::new(),
    };
    let begin = listing.begins[listing.function(COUNT)];
    search.from(begin, false).unwrap()
}

/// The function that counts a packet for its service port.
const COUNT: &str = "count_packet";

#[test]
fn counting_packets_costs_one_array_access_and_nothing_if_it_is_off() {
    needs_root!();
    for (program, function) in [
        (Datapath::INGRESS, Datapath::INGRESS),
        (Datapath::INGRESS_V6, "fast_ingress_v6"),
        (Datapath::EGRESS, Datapath::EGRESS),
        (Datapath::EGRESS_V6, Datapath::EGRESS_V6),
    ] {
        let off = listed(|_| (), program);
        let on = listed(|options| options.count_traffic = true, program);
        assert!(
            !off.names.iter().any(|name| name == COUNT),
            "the verifier removes it: {:?}",
            off.names
        );
        let [[without, _], [with, _]] = [&off, &on].map(|listing| costs(listing, function));
        let count = counting(&on);
        eprintln!("{function}: {without:?}, with packets counted {with:?} and {count:?}");
        assert_eq!(with.lookups, without.lookups, "in hashes");
        let counter = on.function(COUNT);
        let end = on
            .begins
            .iter()
            .filter(|begin| **begin > on.begins[counter])
            .min();
        let end = end.copied().unwrap_or(on.steps.len());
        let steps = &on.steps[on.begins[counter]..end];
        // Before Linux 6.10 an access to an array of each processor is a call.
        let calls = steps.iter().filter_map(|step| match step {
            Step::Kernel(name) => Some(name.as_str()),
            _ => None,
        });
        let calls: Vec<&str> = calls.collect();
        assert!(
            calls.is_empty() || calls == ["percpu_array_map_lookup_elem"],
            "the access is inlined: {calls:?}"
        );
        let more = with.instructions + count.instructions - without.instructions;
        assert!(more <= 62, "{function}: {more} more instructions");
    }
}
