//! This revision against an earlier one (`cargo xtask bench --against REV`): the same packets,
//! through the programs that each of the two agents has loaded.

use std::{cell::RefCell, path::Path};

use anyhow::{Context as _, Error, Result, ensure};
use aya::programs::ProgramFd;
use shunt_common::Counter;

use super::{
    established::EMPTY,
    feeder::Feeder,
    opened::{self, Programs as _},
    revision::Revision,
    traffic::{Family, Peer, Traffic, Transport},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
};

const NAME: &str = "packets/against";

/// Name of this revision.
const THIS: &str = "this";

/// Connections that take turns where there are many.
const MANY: u32 = 65_536;

/// Number of flows that a run opens, and of their clients: no other flow has their addresses.
const OPENED: u32 = 5 * FLOWS_PER_CLIENT;
const CLIENTS: u32 = 5;
const FLOWS_PER_CLIENT: u32 = shunt_common::feeder::FLOWS_PER_CLIENT;

/// The first client whose flows are opened in a run, after those of the open connections.
const FIRST_CLIENT: u32 = MANY / FLOWS_PER_CLIENT;

/// Room for what all rounds open: two entries a flow, and nothing is removed.
const CONNTRACK: u32 = 1 << 20;

/// Number of agents of a revision, which take turns round by round: the place of a program in
/// memory may make a tenth of a difference to a short one.
const INSTANCES: u32 = 3;

/// Limit of this revision's cost over an earlier one's.
const LIMIT: f64 = 1.02;

/// The last revision that tracked connections in the kernel's hash, and the limits over its cost.
const HASH: &str = "b756ca3";
const MANY_OVER_HASH: f64 = 0.5;
const FIRST_OVER_HASH: f64 = 0.75;

/// Runs the study, if there is a revision to compare with.
///
/// # Errors
///
/// If an agent does not start, or the programs do not translate.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    let options = bench.options();
    let (Some(earlier), Some(name)) = (&options.earlier, &options.against) else {
        return Ok(());
    };
    if !bench.wants(NAME) {
        return Ok(());
    }
    let start = |first: u32, name: &str, agent: &Path| {
        let instances = (first..first + INSTANCES)
            .map(|number| Instance::start(agent, number, &mut feeder.borrow_mut()))
            .collect::<Result<Vec<_>>>()
            .with_context(|| format!("the revision {name}"))?;
        Ok::<_, Error>(Subject {
            name: name.to_owned(),
            instances,
        })
    };
    let subjects = &[
        start(0, THIS, &options.agent)?,
        start(INSTANCES, name, earlier)?,
    ];

    let mut study = Study::new(NAME, "ns a packet over the empty program", Better::Lower)
        .rounds(bench.rounds(15, 7))
        .subject(EMPTY, || Ok(sample([("", feeder.borrow_mut().bare()?)])));
    let mut bounds = Vec::new();
    for family in [Family::V4, Family::V6] {
        // The time of the memory for a packet of many flows, whatever translates it.
        let floor = Traffic::new(family, Transport::TcpAck, Peer::Services).spread(MANY, 1);
        let name = format!("{} floor, 64k in turn", family_name(family));
        study = study.subject(name, move || {
            let feeder = &mut feeder.borrow_mut();
            let lines = feeder.lines(family).try_clone();
            let lines = lines.context("cannot keep a program")?;
            Ok(sample([("", feeder.cost(&floor, &lines)?)]))
        });
        for row in ROWS {
            let names = subjects.each_ref().map(|it| row.name(family, &it.name));
            for (subject, name) in subjects.iter().zip(&names) {
                let mut turns = subject.instances.iter().cycle();
                study = study.subject(name.clone(), move || {
                    let instance = turns.next().context("there is no agent")?;
                    instance
                        .cost(feeder, family, row)
                        .map(|cost| sample([("", cost)]))
                });
            }
            bounds.push((names, row.limit(&subjects[1].name)));
        }
    }
    for ([this, other], limit) in bounds {
        let label = format!("{this} over {}", subjects[1].name);
        study = study.bound(Bound::new(label, Limit::AtMost(limit), move |round| {
            Some(round.get(&this, "")? / round.get(&other, "")?)
        }));
    }
    bench.study(study)
}

/// A row of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Request,
    Reply,
    RequestOfMany,
    ReplyOfMany,
    FirstOfTcp,
    FirstOfUdp,
    ToNoService,
}

const ROWS: [Row; 7] = [
    Row::Request,
    Row::Reply,
    Row::RequestOfMany,
    Row::ReplyOfMany,
    Row::FirstOfTcp,
    Row::FirstOfUdp,
    Row::ToNoService,
];

impl Row {
    fn name(self, family: Family, revision: &str) -> String {
        let what = match self {
            Self::Request => "tcp request, 1 in turn",
            Self::Reply => "tcp reply, 1 in turn",
            Self::RequestOfMany => "tcp request, 64k in turn",
            Self::ReplyOfMany => "tcp reply, 64k in turn",
            Self::FirstOfTcp => "tcp first packet",
            Self::FirstOfUdp => "udp first packet",
            Self::ToNoService => "to no service",
        };
        format!("{} {what}, {revision}", family_name(family))
    }

    fn limit(self, earlier: &str) -> f64 {
        match self {
            Self::RequestOfMany | Self::ReplyOfMany if earlier.starts_with(HASH) => MANY_OVER_HASH,
            Self::FirstOfTcp | Self::FirstOfUdp if earlier.starts_with(HASH) => FIRST_OVER_HASH,
            _ => LIMIT,
        }
    }
}

const fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    }
}

/// A revision.
struct Subject {
    name: String,
    instances: Vec<Instance>,
}

/// An agent of a revision, with open connections.
struct Instance {
    revision: RefCell<Revision>,
    ingress: ProgramFd,
    egress: ProgramFd,
    /// The first client that has no flows yet.
    client: RefCell<u32>,
}

impl Instance {
    fn start(agent: &Path, number: u32, feeder: &mut Feeder) -> Result<Self> {
        let mut revision = Revision::start(agent, number, CONNTRACK)?;
        for family in [Family::V4, Family::V6] {
            let many = Traffic::new(family, Transport::TcpAck, Peer::Services).spread(MANY, 1);
            opened::open(feeder, &mut revision, &many)?;
        }
        Ok(Self {
            ingress: revision.ingress()?,
            egress: revision.egress()?,
            revision: RefCell::new(revision),
            client: RefCell::new(FIRST_CLIENT),
        })
    }

    /// Nanoseconds a packet.
    fn cost(&self, feeder: &RefCell<Feeder>, family: Family, row: Row) -> Result<f64> {
        let request = Traffic::new(family, Transport::TcpAck, Peer::Services);
        let reply = request.with(Transport::TcpAck, Peer::Backends);
        let stranger = request.with(Transport::TcpAck, Peer::Stranger);
        let feeder = &mut feeder.borrow_mut();
        match row {
            Row::Request => feeder.cost(&request, &self.ingress),
            Row::Reply => feeder.cost(&reply, &self.egress),
            Row::RequestOfMany => feeder.cost(&request.spread(MANY, 1), &self.ingress),
            Row::ReplyOfMany => feeder.cost(&reply.spread(MANY, 1), &self.egress),
            Row::FirstOfTcp => self.first_packet(feeder, family, Transport::TcpSyn),
            Row::FirstOfUdp => self.first_packet(feeder, family, Transport::Udp),
            Row::ToNoService => feeder.cost(&stranger, &self.ingress),
        }
    }

    /// As [`Self::cost`], of flows that are new.
    fn first_packet(
        &self,
        feeder: &mut Feeder,
        family: Family,
        transport: Transport,
    ) -> Result<f64> {
        let mut client = self.client.borrow_mut();
        let flows = Traffic::new(family, transport, Peer::Services)
            .spread(OPENED, 1)
            .after(*client);
        *client += CLIENTS;
        let revision = self.revision.borrow();
        let before = revision.count(Counter::Connection)?;
        let cost = feeder.cost_of_each(&flows, &self.ingress)?;
        let opened = revision.count(Counter::Connection)? - before;
        ensure!(
            opened == u64::from(OPENED),
            "of {OPENED} flows {opened} were opened"
        );
        Ok(cost)
    }
}
