//! Packets of open connections: of one, and of many in turn.

use std::cell::RefCell;

use anyhow::Result;
use shunt_common::{Counter, feeder::HIDDEN_FLOWS};

use super::{
    UNIT,
    feeder::{Fed, Feeder, Said, Table},
    flows::{Flows, Way},
    node::{Node, Services},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
};

const ONE: &str = "xdp/established";
const MANY: &str = "xdp/flows";
const RATE: &str = "xdp/rate";

const EMPTY: &str = "empty, bare";
const REQUEST: &str = "request";
const REPLY: &str = "reply";
const FLOOR_REQUEST: &str = "floor, request";
const FLOOR_REPLY: &str = "floor, reply";

/// Limit of the cost of one connection's packets over the floor.
const LIMIT: f64 = 1.6;

/// Limit of the cost of many connections' packets over the floor with the usual table.
const MANY_LIMIT: f64 = 1.0;

/// Number of services of the many connections, each of which has its own ports to assign.
const SERVICES: u32 = 16;

/// A node with open connections, and programs that are to do the same with them.
struct World {
    flows: Flows,
    ours: Fed,
    floor: Fed,
    node: Node,
}

impl World {
    fn new(feeder: &mut Feeder, flows: u32, services: u32, table: Table) -> Result<Self> {
        let mut node = Node::new(Services {
            count: services,
            backends: 1,
            by_maglev: false,
            attached: false,
        })?;
        let flows = Flows::open(&mut node, flows, services)?;
        flows.teach(feeder, &mut node, table)?;
        let world = Self {
            flows,
            ours: Fed {
                program: node.at_driver()?,
                says: Said::Redirect,
            },
            floor: feeder.keep(table.program(), Said::Redirect)?,
            node,
        };
        for (way, counter) in [
            (Way::Request, Counter::Request),
            (Way::Reply, Counter::Reply),
        ] {
            let plan = world.flows.plan(way);
            world.node.all_count(feeder, &plan, &world.ours, counter)?;
        }
        Ok(world)
    }

    /// The four subjects of a study.
    fn subjects<'a>(&'a self, study: Study<'a>, feeder: &'a RefCell<Feeder>) -> Study<'a> {
        [
            (FLOOR_REQUEST, Way::Request, &self.floor),
            (FLOOR_REPLY, Way::Reply, &self.floor),
            (REQUEST, Way::Request, &self.ours),
            (REPLY, Way::Reply, &self.ours),
        ]
        .into_iter()
        .fold(study, |study, (name, way, fed)| {
            let plan = self.flows.plan(way);
            study.subject(name, move || {
                Ok(sample([("", feeder.borrow_mut().cost(&plan, fed)?)]))
            })
        })
    }
}

/// Runs the studies.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not send packets on.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if bench.wants(ONE) {
        let world = World::new(&mut feeder.borrow_mut(), 1, 1, Table::Hash)?;
        let study = Study::new(ONE, UNIT, Better::Lower)
            .rounds(bench.rounds(15, 7))
            .subject(EMPTY, || Ok(sample([("", feeder.borrow_mut().bare()?)])));
        bench.study(over_floor(world.subjects(study, feeder), LIMIT))?;
    }
    if !bench.wants(MANY) && !bench.wants(RATE) {
        return Ok(());
    }
    let world = World::new(&mut feeder.borrow_mut(), HIDDEN_FLOWS, SERVICES, Table::Lru)?;
    let study = Study::new(MANY, format!("{UNIT}, 64k flows in turn"), Better::Lower)
        .rounds(bench.rounds(15, 7));
    bench.study(over_floor(world.subjects(study, feeder), MANY_LIMIT))?;
    let unit = "million packets a second on one CPU, 64k flows in turn";
    let study = Study::new(RATE, unit, Better::Higher).rounds(bench.rounds(15, 7));
    bench.study(rates(&world, study, feeder))
}

fn over_floor(study: Study<'_>, limit: f64) -> Study<'_> {
    [
        ("request over the floor", REQUEST, FLOOR_REQUEST),
        ("reply over the floor", REPLY, FLOOR_REPLY),
    ]
    .into_iter()
    .fold(study, |study, (label, subject, floor)| {
        study.bound(Bound::ratio(
            label,
            subject,
            floor,
            "",
            Limit::AtMost(limit),
        ))
    })
}

/// Adds the packet rates of a processor that does nothing but call the programs.
fn rates<'a>(world: &'a World, study: Study<'a>, feeder: &'a RefCell<Feeder>) -> Study<'a> {
    [
        (FLOOR_REQUEST, Way::Request, &world.floor),
        (REQUEST, Way::Request, &world.ours),
        (REPLY, Way::Reply, &world.ours),
    ]
    .into_iter()
    .fold(study, |study, (name, way, fed)| {
        let plan = world.flows.plan(way);
        study.subject(name, move || {
            let feeder = &mut feeder.borrow_mut();
            let time = feeder.bare()? + feeder.cost(&plan, fed)?;
            Ok(sample([("", 1e3 / time)]))
        })
    })
}
