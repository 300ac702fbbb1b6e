//! New connections with a watcher, and without one.

use std::cell::{Cell, RefCell};

use anyhow::{Context as _, Result, ensure};
use shunt_common::{Counter, FlowKind, feeder::FLOWS_PER_CLIENT};
use shunt_datapath::{Families, FlowChoice, FlowReader};
use shunt_tests::PinDir;

use super::{
    feeder::Feeder,
    node::{Node, Size},
    opened::Programs as _,
    traffic::{Family, Peer, Traffic, Transport},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const NAME: &str = "packets/monitor";

/// Number of connections opened in a run. The ring has room for two events of each: its begin, and the end of one whose
/// place it takes.
const FLOWS: u32 = 1 << 14;

/// Watchers, each with the share of connections that are reported to it: one in so many.
const NOBODY: &str = "nobody watches";
const SAMPLED: &str = "one in 100 is told of";
const WATCHERS: [(&str, Option<u32>); 3] = [
    (NOBODY, None),
    (SAMPLED, Some(100)),
    ("all are told of", Some(1)),
];

/// Least rate of opened connections while one in 100 is reported, over that without a watcher.
const LIMIT: f64 = 0.97;

/// A node, and the reader of its programs' reports, if there are any.
struct World {
    name: &'static str,
    node: Node,
    reader: Option<FlowReader>,
}

impl World {
    fn new(name: &'static str, one_in: Option<u32>) -> Result<Self> {
        let mut node = Node::new(Size {
            services: 1,
            conntrack: 4 * FLOWS,
            families: Families {
                ipv4: true,
                ipv6: false,
            },
        })?;
        let pins = PinDir::new();
        let reader = one_in.map(|one_in| {
            node.watch(
                pins.path(),
                FlowChoice {
                    kinds: FlowKind::ALL,
                    one_in,
                    client: None,
                    frontend: None,
                },
            )
        });
        Ok(Self {
            name,
            node,
            reader: reader.transpose()?,
        })
    }

    /// Opens the flows of `traffic` in a table that is empty before.
    fn open(&mut self, feeder: &mut Feeder, traffic: &Traffic) -> Result<Sample> {
        let Self {
            name: _,
            node,
            reader,
        } = self;
        let before = node.count(Counter::Connection)?;
        let program = node.ingress()?;
        let each = feeder.cost_of_each(traffic, &program)?;
        let opened = node.count(Counter::Connection)? - before;
        if let Some(reader) = reader {
            while reader.next_flow().is_some() {}
            ensure!(reader.lost() == 0, "{} events were lost", reader.lost());
        }
        node.forget()?;
        ensure!(
            opened == u64::from(FLOWS),
            "of {FLOWS} connections {opened} were opened"
        );
        Ok(sample([("", 1e6 / each)]))
    }
}

/// Runs the study.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not open the connections.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let worlds = WATCHERS
        .into_iter()
        .map(|(name, one_in)| World::new(name, one_in).map(RefCell::new))
        .collect::<Result<Vec<_>>>()
        .context("a node that is watched")?;
    let traffic = Traffic::new(Family::V4, Transport::TcpSyn, Peer::Services).spread(FLOWS, 1);
    // Other clients each time: what is over is still known.
    let clients = Cell::new(0);
    let next = || traffic.after(clients.replace(clients.get() + FLOWS / FLOWS_PER_CLIENT));
    let mut study = Study::new(
        NAME,
        "thousand new connections a second on one CPU",
        Better::Higher,
    )
    .rounds(bench.rounds(21, 9));
    for world in &worlds {
        let (name, next) = (world.borrow().name, &next);
        study = study.subject(name, move || {
            world.borrow_mut().open(&mut feeder.borrow_mut(), &next())
        });
    }
    study = study.bound(Bound::new(
        "throughput of new connections, one in 100 told of over nobody watching",
        Limit::AtLeast(LIMIT),
        move |round| Some(round.get(SAMPLED, "")? / round.get(NOBODY, "")?),
    ));
    bench.study(study)
}
