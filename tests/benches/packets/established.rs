//! Packets of one open connection, each way.

use std::{
    cell::RefCell,
    net::{IpAddr, SocketAddrV4},
};

use anyhow::{Context as _, Result, bail};
use aya::programs::ProgramFd;
use shunt_datapath::{Families, TableSizes};

use super::{
    feeder::Feeder,
    node::{self, Node, SERVICE_PORT, Size},
    opened::{self, Programs as _},
    programs,
    traffic::{Family, Peer, Traffic, Transport},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
};

const NAME: &str = "packets/established";

pub(super) const EMPTY: &str = "empty, bare";
const TRIVIAL: &str = "trivial";
const FLOOR: &str = "floor";

/// Limits over the floor.
const REQUEST_LIMIT: f64 = 1.35;
const REPLY_LIMIT: f64 = 1.25;

/// Runs the study.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not translate.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if !bench.wants(NAME) && !bench.wants("packets/programs") {
        return Ok(());
    }
    let size = Size {
        services: 1,
        conntrack: TableSizes::default().conntrack,
        families: Families::default(),
    };
    let mut node = Node::new(size)?;
    if bench.wants("packets/programs") {
        bench.facts(programs::sizes(&mut node, &mut feeder.borrow_mut())?);
    }
    let (ingress, egress) = (node.ingress()?, node.egress()?);
    // With packets and bytes counted for each service.
    let mut counting = Node::with(size, |options| options.count_traffic = true)?;
    let (counting_ingress, counting_egress) = (counting.ingress()?, counting.egress()?);
    let (empty, trivial) = {
        let feeder = feeder.borrow();
        let keep = |program: &ProgramFd| program.try_clone().context("cannot keep a program");
        (keep(feeder.empty())?, keep(feeder.trivial())?)
    };

    let tcp = Traffic::new(Family::V4, Transport::TcpAck, Peer::Services);
    let ends = [
        node::client(Family::V4),
        node::peer(Family::V4, Peer::Services),
    ];
    let [IpAddr::V4(client), IpAddr::V4(service)] = ends else {
        bail!("an IPv4 address is none");
    };
    let service = SocketAddrV4::new(service, SERVICE_PORT);
    let floor = feeder.borrow_mut().floor(client, service)?;
    let mut study = Study::new(NAME, "ns a packet over the empty program", Better::Lower)
        .rounds(bench.rounds(15, 7))
        .subject(EMPTY, || Ok(sample([("", feeder.borrow_mut().bare()?)])))
        .subject("empty, fed", || opened::cost(feeder, &tcp, &empty))
        .subject(TRIVIAL, || opened::cost(feeder, &tcp, &trivial))
        .subject(FLOOR, || opened::cost(feeder, &tcp, &floor));
    for (family, transport, name) in [
        (
            Family::V4,
            Transport::TcpAck,
            ["v4 tcp request", "v4 tcp reply"],
        ),
        (
            Family::V4,
            Transport::Udp,
            ["v4 udp request", "v4 udp reply"],
        ),
        (
            Family::V6,
            Transport::TcpAck,
            ["v6 tcp request", "v6 tcp reply"],
        ),
        (
            Family::V6,
            Transport::Udp,
            ["v6 udp request", "v6 udp reply"],
        ),
    ] {
        let request = Traffic::new(family, transport, Peer::Services);
        let reply = request.with(transport, Peer::Backends);
        opened::open(&mut feeder.borrow_mut(), &mut node, &request)?;
        let (ingress, egress) = (&ingress, &egress);
        study = study
            .subject(name[0], move || opened::cost(feeder, &request, ingress))
            .subject(name[1], move || opened::cost(feeder, &reply, egress));
    }
    for (family, name) in [
        (
            Family::V4,
            ["v4 tcp request, counted", "v4 tcp reply, counted"],
        ),
        (
            Family::V6,
            ["v6 tcp request, counted", "v6 tcp reply, counted"],
        ),
    ] {
        let request = Traffic::new(family, Transport::TcpAck, Peer::Services);
        let reply = request.with(Transport::TcpAck, Peer::Backends);
        opened::open(&mut feeder.borrow_mut(), &mut counting, &request)?;
        let (ingress, egress) = (&counting_ingress, &counting_egress);
        study = study
            .subject(name[0], move || opened::cost(feeder, &request, ingress))
            .subject(name[1], move || opened::cost(feeder, &reply, egress));
    }
    let over_floor = |subject: &'static str, limit| {
        let label = format!("{subject} over the floor");
        Bound::ratio(label, subject, FLOOR, "", Limit::AtMost(limit))
    };
    bench.study(
        study
            .bound(over_floor("v4 tcp request", REQUEST_LIMIT))
            .bound(over_floor("v4 tcp reply", REPLY_LIMIT)),
    )
}
