//! New connections to backends elsewhere, from the driver's frames on: the XDP program sends a frame on,
//! or passes it, the kernel makes an skb of it, and the TC program sends that on.
//!
//! The kernel runs the feeder on frames as a driver has them (`BPF_F_TEST_XDP_LIVE_FRAMES`), in the place
//! of the interface towards all others. Whatever leaves by it is dropped at the far end.

use std::cell::{Cell, RefCell};

use anyhow::{Context as _, Result, ensure};
use aya::programs::{Xdp, xdp::XdpMode};
use nix::net::if_::if_nametoindex;
use shunt_common::{Counter, feeder::FLOWS_PER_CLIENT};

use super::{
    feeder::{Feeder, Said},
    new::{BACKENDS, FLOWS, SERVICES, opened},
    node::{FAR_END, Node, Services, UPLINK},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study},
    packets::traffic::{Family, Peer, Traffic, Transport},
};

const NAME: &str = "xdp/live-new-flows";

const TC: &str = "TC";
const XDP: &str = "XDP";

/// Least ratio to the rate at TC.
const LIMIT: f64 = 1.2;

/// Runs the study.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not open the connections.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let traffic =
        Traffic::new(Family::V4, Transport::TcpSyn, Peer::Services).spread(FLOWS, SERVICES);
    let node = RefCell::new(Node::new(Services {
        count: SERVICES,
        backends: BACKENDS,
        by_maglev: false,
        attached: true,
    })?);
    // An interface has a driver's queue once it has a program.
    attach(feeder, "empty_xdp", UPLINK)?;
    attach(feeder, "drop_xdp", FAR_END)?;
    let passes = feeder.borrow_mut().keep("empty_xdp", Said::Pass)?;
    let interface = if_nametoindex(UPLINK).context("the node has no interface")?;
    let clients = Cell::new(0);
    let open = |by_driver: bool| {
        let plan = traffic
            .after(clients.replace(clients.get() + FLOWS / FLOWS_PER_CLIENT))
            .plan();
        let node = &mut node.borrow_mut();
        let before = node.count(Counter::Xdp)?;
        let sample: Sample = opened(node, |node| {
            let program = if by_driver {
                &node.at_driver()?
            } else {
                &passes.program
            };
            let time = feeder.borrow_mut().feed_live(&plan, program, interface)?;
            Ok(time.as_nanos() as f64 / f64::from(plan.flows))
        })?;
        let taken = node.count(Counter::Xdp)? - before;
        let expected = if by_driver { u64::from(FLOWS) } else { 0 };
        ensure!(taken == expected, "the driver took {taken} of {FLOWS}");
        Ok(sample)
    };
    let unit = "thousand new connections a second on one CPU, from the driver's frames on";
    let study = Study::new(NAME, unit, Better::Higher)
        .rounds(bench.rounds(15, 5))
        .subject(TC, || open(false))
        .subject(XDP, || open(true));
    let limit = Limit::AtLeast(LIMIT);
    bench.study(study.bound(Bound::ratio("XDP over TC", XDP, TC, "", limit)))
}

/// Attaches a program to an interface, for as long as the feeder lasts.
fn attach(feeder: &RefCell<Feeder>, program: &str, interface: &str) -> Result<()> {
    let mut feeder = feeder.borrow_mut();
    let program: &mut Xdp = feeder.program_mut(program)?;
    program
        .attach(interface, XdpMode::Driver)
        .with_context(|| format!("cannot attach to {interface}"))
        .map(drop)
}
