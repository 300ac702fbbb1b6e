//! Requests to services in mode dsr, which go on in envelopes: of one flow, and of many in turn.

use std::{cell::RefCell, net::SocketAddrV4};

use anyhow::{Result, ensure};
use shunt_common::{
    Counter,
    feeder::{HIDDEN_FLOWS, Plan, Translation},
};
use shunt_tests::run_driver;

use super::{
    UNIT,
    feeder::{Fed, Feeder, Said, Table},
    flows::{Ends, ONE_HOP_LESS, Way, addresses, changed, client, flow, frame, sum},
    node::{NODE, Node, OTHER_NODE, Services, nth},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
    packets::{
        node::SERVICE_PORT,
        traffic::{Family, Peer, Traffic, Transport},
    },
};

const ONE: &str = "xdp/dsr";
const MANY: &str = "xdp/dsr-flows";

const WEIGHTED: &str = "request, by slots";
const MAGLEV: &str = "request, by Maglev";
const FLOOR: &str = "floor, request";

/// How much more than the floor a request of one flow may cost.
const LIMIT: f64 = 1.6;

/// How much more than the floor with the usual table those of many.
const MANY_LIMIT: f64 = 1.0;

/// How many services those of many go to, and how many backends each has.
const SERVICES: u32 = 16;
const BACKENDS: u32 = 10;

/// Requests, two nodes that get them, and a program that is to do the same.
struct World {
    plan: Plan,
    floor: Fed,
    weighted: Node,
    maglev: Node,
}

impl World {
    fn new(feeder: &mut Feeder, flows: u32, services: u32, table: Table) -> Result<Self> {
        let [weighted, maglev] = [false, true].map(|by_maglev| {
            Node::in_mode_dsr(Services {
                count: services,
                backends: BACKENDS,
                by_maglev,
                attached: false,
            })
        });
        let mut world = Self {
            plan: Traffic::new(Family::V4, Transport::TcpAck, Peer::Services)
                .spread(flows, services)
                .plan(),
            floor: feeder.keep(table.envelope_program(), Said::Redirect)?,
            weighted: weighted?,
            maglev: maglev?,
        };
        let came = |number| {
            let service = SocketAddrV4::new(nth(Peer::Services, number % services), SERVICE_PORT);
            Ends(client(number), service)
        };
        feeder.learn(
            table,
            (0..flows).map(|number| (flow(came(number)), envelope())),
        )?;
        for node in [&mut world.weighted, &mut world.maglev] {
            for number in [0, flows - 1] {
                let frame = frame(Transport::TcpAck, Way::Request, came(number));
                let by_hand = run_driver(feeder.program(table.envelope_program())?, &frame)?;
                let ours = run_driver(node.driver()?, &frame)?;
                ensure!(
                    by_hand == ours,
                    "what is written by hand does something else: {by_hand:?}, not {ours:?}"
                );
            }
        }
        for node in [&mut world.weighted, &mut world.maglev] {
            let fed = at_driver(node)?;
            node.all_count(feeder, &world.plan, &fed, Counter::Wrapped)?;
        }
        Ok(world)
    }

    /// Measures the programs in turn.
    fn study(
        mut self,
        bench: &mut Bench,
        feeder: &RefCell<Feeder>,
        (name, unit, limit): (&str, String, f64),
    ) -> Result<()> {
        let fed = [
            (FLOOR, self.floor),
            (WEIGHTED, at_driver(&mut self.weighted)?),
            (MAGLEV, at_driver(&mut self.maglev)?),
        ];
        let mut study = Study::new(name, unit, Better::Lower).rounds(bench.rounds(15, 7));
        for (name, fed) in &fed {
            let plan = &self.plan;
            study = study.subject(*name, move || {
                Ok(sample([("", feeder.borrow_mut().cost(plan, fed)?)]))
            });
        }
        for subject in [WEIGHTED, MAGLEV] {
            let label = format!("{subject}, over the floor");
            let limit = Limit::AtMost(limit);
            study = study.bound(Bound::ratio(label, subject, FLOOR, "", limit));
        }
        bench.study(study)
    }
}

fn at_driver(node: &mut Node) -> Result<Fed> {
    Ok(Fed {
        program: node.at_driver()?,
        says: Said::Redirect,
    })
}

/// What the floor makes of a packet: an envelope between the two nodes.
fn envelope() -> Translation {
    let port = 0;
    let between = Ends(
        SocketAddrV4::new(NODE, port),
        SocketAddrV4::new(OTHER_NODE, port),
    );
    // Version and length; no number, and not to be cut; hops, and IPv4 inside.
    let header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 4];
    Translation {
        addresses: u64::from_ne_bytes(addresses(between)),
        ports: 0,
        network_change: ONE_HOP_LESS,
        transport_change: sum([changed(&[], &header), changed(&[], &addresses(between))]),
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
        world.study(bench, feeder, (ONE, UNIT.to_owned(), LIMIT))?;
    }
    if bench.wants(MANY) {
        let world = World::new(&mut feeder.borrow_mut(), HIDDEN_FLOWS, SERVICES, Table::Lru)?;
        let unit = format!("{UNIT}, 64k flows in turn");
        world.study(bench, feeder, (MANY, unit, MANY_LIMIT))?;
    }
    Ok(())
}
