//! Requests and connections through a ClusterIP, over those with a backend itself.

use std::path::Path;

use anyhow::Result;
use shunt_tests::{Cgroup, addresses};

use super::{
    comparison::Comparison,
    node::{CLUSTER_IPS, Node, Whose, backend, frontend, kind},
};
use crate::{
    bench::Bench,
    load::{Client, Exchange},
    measure::{Better, Bound, Limit, Sample, Study, sample},
    traffic::{Proxy, Subject, services::Place},
};

const DIRECT: &str = "direct";
const AGAIN: &str = "direct (again)";
const SOCKETS: &str = "Shunt, sockets";
const STORED: &str = "socket storage and another address, by hand";

/// Alternatives to Shunt on a node, each with a cgroup for its clients.
pub(super) struct Others {
    cgroup: Cgroup,
    nothing: Subject,
    rules: Subject,
    stored: Comparison,
}

impl Others {
    /// A node without anything, one with kube-proxy's rules, and the least that a program at
    /// `connect` can do.
    ///
    /// # Errors
    ///
    /// When one cannot be made.
    pub(super) fn new(feeder: &Path) -> Result<Self> {
        let rules = Subject::new(kind(Proxy::Nftables))?;
        if let Some(rules) = rules.rules() {
            rules.load()?;
        }
        let ((network, length), way) = (CLUSTER_IPS, addresses::NODE2);
        let route = format!("route add {network}/{length} via {way}\n");
        rules.sandbox().node().configure(&route)?;
        Ok(Self {
            cgroup: Cgroup::new()?,
            nothing: Subject::new(kind(Proxy::Direct))?,
            rules,
            stored: Comparison::stored(feeder, backend())?,
        })
    }

    fn client<'a>(&'a self, subject: &'a Subject, whose: Whose) -> Client<'a> {
        Client {
            cgroup: &self.cgroup,
            namespace: whose.namespace(subject),
        }
    }
}

/// Runs the studies.
///
/// # Errors
///
/// When one fails, or the user stops it.
pub(super) fn run(bench: &mut Bench, node: &Node, others: &Others) -> Result<()> {
    // A connected UDP socket of a pod is left to its packets.
    let of_pods = [Exchange::Request, Exchange::Connection, Exchange::SendTo];
    let of_host = [
        Exchange::Request,
        Exchange::Connection,
        Exchange::Datagram,
        Exchange::SendTo,
    ];
    for (whose, exchanges) in [(Whose::Pod, &of_pods[..]), (Whose::Host, &of_host)] {
        for &exchange in exchanges {
            let rounds = bench.rounds(101, 9);
            bench.study(study(whose, exchange, node, others).rounds(rounds))?;
        }
    }
    Ok(())
}

fn study<'a>(whose: Whose, exchange: Exchange, node: &'a Node, others: &'a Others) -> Study<'a> {
    let name = format!("sockets/{}/{}", whose.word(), exchange.word());
    let (untouched, translated) = (node.untouched(whose), node.translated(whose));
    let ask = move |client: Client<'_>, subject: &Subject, target| -> Result<Sample> {
        let served = subject.served(Place::Local);
        let (p50, p99) = client.run(exchange, exchange.times(), target, served)?;
        Ok(sample([("p50", p50 / 1e3), ("p99", p99 / 1e3)]))
    };
    let Others {
        cgroup: _,
        nothing,
        rules,
        stored,
    } = others;
    let mut study = Study::new(name, exchange.unit(), Better::Lower)
        .subject(DIRECT, move || ask(untouched, node.subject(), backend()))
        .subject(SOCKETS, move || ask(translated, node.subject(), frontend()));
    if whose == Whose::Pod {
        let packets = move || ask(untouched, node.subject(), frontend());
        study = study.subject("Shunt, packets", packets);
    }
    if exchange == Exchange::Connection {
        let client = Client {
            cgroup: stored.cgroup(),
            ..untouched
        };
        study = study.subject(STORED, move || ask(client, node.subject(), frontend()));
    }
    study
        .subject("direct, without Shunt", move || {
            ask(others.client(nothing, whose), nothing, backend())
        })
        .subject("nftables", move || {
            ask(others.client(rules, whose), rules, frontend())
        })
        .bound(bound(exchange))
}

/// Returns the limit of the translated ones' distance from the direct ones, beyond that of the
/// direct ones from themselves.
fn bound<'a>(exchange: Exchange) -> Bound<'a> {
    let limit = match exchange {
        Exchange::Connection => 0.02,
        Exchange::SendTo => 0.03,
        _ => 0.01,
    };
    let label = format!("{SOCKETS} over direct, beyond {AGAIN}, p50");
    Bound::new(label, Limit::AtMost(limit), |round| {
        let p50 = |subject| round.get(subject, "p50");
        Some((p50(SOCKETS)? - p50(AGAIN)?) / p50(DIRECT)?)
    })
}
