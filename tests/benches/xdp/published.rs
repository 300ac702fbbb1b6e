//! Known figures of others at the driver, to be read beside `xdp/established` and `xdp/flows`.

use crate::{bench::Bench, report::Facts};

const NAME: &str = "xdp/others";

/// Nanoseconds a packet, of one flow and of many in turn, as `BPF_PROG_TEST_RUN` runs their programs.
/// They are not of this run: Cilium's are of its development tree. Katran puts packets into an
/// envelope, and sees one direction.
const KNOWN: [[&str; 3]; 4] = [
    [
        "Cilium 1.18, NodePort with SNAT, request",
        "274 to 279",
        "1,083 to 1,163",
    ],
    [
        "Cilium 1.18, NodePort with SNAT, reply",
        "202",
        "1,219 to 1,300",
    ],
    [
        "Cilium 1.18, packet that is no service's",
        "40 to 55",
        "208 to 212",
    ],
    ["Katran, envelope", "64", "120 to 250"],
];

/// Reports them.
pub(super) fn run(bench: &mut Bench) {
    if !bench.wants(NAME) {
        return;
    }
    bench.facts(Facts {
        name: NAME.to_owned(),
        columns: vec!["who", ">one flow, ns a packet", ">many flows"],
        rows: KNOWN.map(|row| row.map(str::to_owned).to_vec()).to_vec(),
    });
}
