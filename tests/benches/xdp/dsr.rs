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
    feeder::{CHOICE, Fed, Feeder, Said, Table},
    flows::{Ends, ONE_HOP_LESS, Way, addresses, changed, client, flow, frame, sum},
    flows_v6,
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
const ONE_V6: &str = "xdp/dsr-v6";
const MANY: &str = "xdp/dsr-flows";
const MANY_V6: &str = "xdp/dsr-flows-v6";

const WEIGHTED: &str = "request, by slots";
const MAGLEV: &str = "request, by Maglev";
const FLOOR: &str = "floor, request";
/// The least that a program can do that chooses a backend as ours do.
const CHOSEN: &str = "floor, chosen by slots";

/// Limit of the cost of one flow's request over the floor.
const LIMIT: f64 = 1.6;

/// Limit of the cost of many flows' requests over the floor with the usual table.
const MANY_LIMIT: f64 = 1.0;

/// Number of services of the many flows, and of backends of each.
const SERVICES: u32 = 16;
const BACKENDS: u32 = 10;

/// Requests, two nodes that get them, and programs that are to do the same.
struct World {
    plan: Plan,
    floor: Fed,
    /// Of IPv4.
    chosen: Option<Fed>,
    weighted: Node,
    maglev: Node,
}

impl World {
    fn new(
        feeder: &mut Feeder,
        family: Family,
        (flows, services): (u32, u32),
        table: Table,
    ) -> Result<Self> {
        let [weighted, maglev] = [false, true].map(|by_maglev| {
            let services = Services {
                count: services,
                backends: BACKENDS,
                by_maglev,
                attached: false,
            };
            Node::in_mode_dsr(services, family)
        });
        let floor = table.envelope_program(family);
        let mut world = Self {
            plan: Traffic::new(family, Transport::TcpAck, Peer::Services)
                .spread(flows, services)
                .plan(),
            floor: feeder.keep(floor, Said::Redirect)?,
            chosen: None,
            weighted: weighted?,
            maglev: maglev?,
        };
        let both = [0, flows - 1];
        let frames = match family {
            Family::V4 => {
                let came = |number| came(number, services);
                let learnt = (0..flows).map(|number| (flow(came(number)), envelope()));
                feeder.learn(table, learnt)?;
                let frontends: Vec<u64> = (0..services).map(frontend).collect();
                feeder.learn_choices(&frontends, BACKENDS, envelope())?;
                world.chosen = Some(feeder.keep(CHOICE, Said::Redirect)?);
                both.map(|number| frame(Transport::TcpAck, Way::Request, came(number)))
            }
            Family::V6 => {
                let came = |number| flows_v6::Ends::of(number, services);
                let learnt = (0..flows).map(|number| (came(number).flow(), flows_v6::envelope()));
                feeder.learn_v6(table, learnt)?;
                both.map(|number| came(number).frame())
            }
        };
        let by_hand = [Some(floor), world.chosen.as_ref().map(|_| CHOICE)];
        for frame in &frames {
            for node in [&mut world.weighted, &mut world.maglev] {
                let ours = run_driver(node.driver()?, frame)?;
                for name in by_hand.into_iter().flatten() {
                    let by_hand = run_driver(feeder.program(name)?, frame)?;
                    ensure!(
                        by_hand == ours,
                        "{name} does something else: {by_hand:?}, not {ours:?}"
                    );
                }
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
        let mut fed = vec![
            (FLOOR, self.floor),
            (WEIGHTED, at_driver(&mut self.weighted)?),
            (MAGLEV, at_driver(&mut self.maglev)?),
        ];
        fed.extend(self.chosen.map(|chosen| (CHOSEN, chosen)));
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

/// Returns the ends of a flow's packets.
fn came(number: u32, services: u32) -> Ends {
    let service = nth(Peer::Services, number % services);
    Ends(client(number), SocketAddrV4::new(service, SERVICE_PORT))
}

/// A service's address, port and protocol, as the program that chooses looks for them.
fn frontend(number: u32) -> u64 {
    const TCP: u64 = 6;
    let address = u32::from_ne_bytes(nth(Peer::Services, number).octets());
    let port = SERVICE_PORT.to_be();
    u64::from(address) | u64::from(port) << 32 | TCP << 48
}

fn at_driver(node: &mut Node) -> Result<Fed> {
    Ok(Fed {
        program: node.at_driver()?,
        says: Said::Redirect,
    })
}

/// Returns the floor's result for a packet: an envelope between the two nodes.
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
    for (family, one, many) in [(Family::V4, ONE, MANY), (Family::V6, ONE_V6, MANY_V6)] {
        if bench.wants(one) {
            let world = World::new(&mut feeder.borrow_mut(), family, (1, 1), Table::Hash)?;
            world.study(bench, feeder, (one, UNIT.to_owned(), LIMIT))?;
        }
        if bench.wants(many) {
            let flows = (HIDDEN_FLOWS, SERVICES);
            let world = World::new(&mut feeder.borrow_mut(), family, flows, Table::Lru)?;
            let unit = format!("{UNIT}, 64k flows in turn");
            world.study(bench, feeder, (many, unit, MANY_LIMIT))?;
        }
    }
    Ok(())
}
