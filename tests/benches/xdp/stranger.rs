//! Packets for other hosts.

use std::cell::RefCell;

use anyhow::{Result, ensure};
use shunt_common::{Counter, feeder::Plan};

use super::{
    UNIT,
    feeder::{Fed, Feeder, Said},
    node::{Node, Services},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
    packets::traffic::{Family, Peer, Traffic, Transport},
};

const NAME: &str = "xdp/stranger";

const EMPTY: &str = "empty, bare";
const FLOOR: &str = "a filter's word and a table's slot";
const HASHES: &str = "two kernel hashes";
const TO_GIVEN: &str = "to a port that SNAT gives";
const TO_OTHER: &str = "to another port";
/// As all are that go to a node's own address, which has `NodePort`s.
const TO_FRONTENDS: &str = "to an address of frontends, at a port of none";

/// Limit over the program that is written by hand.
const LIMIT: f64 = 1.2;

/// A port that no frontend has, and that SNAT does not give.
const UNUSED: u16 = 81;

/// A port among those that SNAT assigns by default.
const GIVEN: u16 = 8080;

/// Runs the study.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not pass the packets on.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let mut node = Node::new(Services {
        count: 1,
        backends: 1,
        by_maglev: false,
        attached: false,
    })?;
    let floor = feeder.borrow_mut().keep("stranger_xdp", Said::Pass)?;
    let hashes = feeder
        .borrow_mut()
        .keep("stranger_xdp_hashes", Said::Pass)?;
    let ours = Fed {
        program: node.at_driver()?,
        says: Said::Pass,
    };
    // Below 1024: SNAT assigns none of those.
    let other = Traffic::new(Family::V4, Transport::TcpAck, Peer::Stranger).plan();
    let given = Plan {
        peer_port: GIVEN.to_be().into(),
        ..other
    };
    let unserved = Plan {
        peer_port: UNUSED.to_be().into(),
        ..Traffic::new(Family::V4, Transport::TcpAck, Peer::Services).plan()
    };
    let taken = node.count(Counter::Xdp)?;
    let mut study = Study::new(NAME, UNIT, Better::Lower)
        .rounds(bench.rounds(15, 7))
        .subject(EMPTY, || Ok(sample([("", feeder.borrow_mut().bare()?)])));
    for (name, plan, fed) in [
        (FLOOR, given, &floor),
        (HASHES, given, &hashes),
        (TO_GIVEN, given, &ours),
        (TO_OTHER, other, &ours),
        (TO_FRONTENDS, unserved, &ours),
    ] {
        study = study.subject(name, move || {
            Ok(sample([("", feeder.borrow_mut().cost(&plan, fed)?)]))
        });
    }
    for (subject, floor) in [
        (TO_GIVEN, FLOOR),
        (TO_OTHER, FLOOR),
        (TO_GIVEN, HASHES),
        (TO_FRONTENDS, HASHES),
    ] {
        let label = format!("{subject}, over {floor}");
        let limit = Limit::AtMost(LIMIT);
        study = study.bound(Bound::ratio(label, subject, floor, "", limit));
    }
    bench.study(study)?;
    ensure!(
        node.count(Counter::Xdp)? == taken,
        "a stranger's packets are not passed on"
    );
    Ok(())
}
