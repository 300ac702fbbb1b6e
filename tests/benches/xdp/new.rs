//! New connections to backends elsewhere, with a source port of this node's: what the programs take for
//! them, at the driver and at TC.

use std::cell::{Cell, RefCell};

use anyhow::{Result, ensure};
use shunt_common::{Counter, feeder::FLOWS_PER_CLIENT};

use super::{
    feeder::{Fed, Feeder, Said},
    node::{Node, Services},
};
use crate::{
    bench::Bench,
    measure::{Better, Sample, Study, sample},
    packets::{
        feeder::Feeder as TcFeeder,
        traffic::{Family, Peer, Traffic, Transport},
    },
};

const NAME: &str = "xdp/new-flows";

const TC: &str = "TC";
const XDP: &str = "XDP";

/// Number of connections opened in a run, of their services, and of backends of each.
pub(super) const FLOWS: u32 = 1 << 16;
pub(super) const SERVICES: u32 = 16;
pub(super) const BACKENDS: u32 = 10;

/// Runs the study.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not open the connections.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let tc = RefCell::new(TcFeeder::load(&bench.options().feeder)?);
    let traffic =
        Traffic::new(Family::V4, Transport::TcpSyn, Peer::Services).spread(FLOWS, SERVICES);
    let node = |by_maglev| {
        Node::new(Services {
            count: SERVICES,
            backends: BACKENDS,
            by_maglev,
            attached: false,
        })
        .map(RefCell::new)
    };
    let (weighted, maglev) = (node(false)?, node(true)?);
    // Other clients each time: what is over is still known, and a SYN of such a tuple is TC's.
    let clients = Cell::new(0);
    let next = || traffic.after(clients.replace(clients.get() + FLOWS / FLOWS_PER_CLIENT));
    let mut study = Study::new(
        NAME,
        "thousand new connections a second on one CPU",
        Better::Higher,
    )
    .rounds(bench.rounds(11, 5));
    for (suffix, node) in [("", &weighted), (", Maglev", &maglev)] {
        let (tc, next) = (&tc, &next);
        study = study
            .subject(format!("{TC}{suffix}"), move || {
                opened(&mut node.borrow_mut(), |node| {
                    let program = node.at_tc()?;
                    tc.borrow_mut().cost_of_each(&next(), &program)
                })
            })
            .subject(format!("{XDP}{suffix}"), move || {
                opened(&mut node.borrow_mut(), |node| {
                    let fed = Fed {
                        program: node.at_driver()?,
                        says: Said::Redirect,
                    };
                    feeder.borrow_mut().cost_of_each(&next().plan(), &fed)
                })
            });
    }
    bench.study(study)
}

/// Measures the flows that `open` opens, in a table that is empty before; `open` returns the nanoseconds of each.
pub(super) fn opened(
    node: &mut Node,
    open: impl FnOnce(&mut Node) -> Result<f64>,
) -> Result<Sample> {
    let before = node.count(Counter::Connection)?;
    let each = open(node)?;
    let opened = node.count(Counter::Connection)? - before;
    node.forget()?;
    // At the driver a packet of each way goes by the stack every few seconds, whose programs do not run here.
    let by_stack = u64::from(SERVICES * BACKENDS);
    ensure!(
        (u64::from(FLOWS) - by_stack..=u64::from(FLOWS)).contains(&opened),
        "of {FLOWS} connections {opened} were opened"
    );
    Ok(sample([("", 1e6 / each)]))
}
