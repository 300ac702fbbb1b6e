//! One service with many external addresses: what it costs goes up with their number, and no faster.

use std::{cell::RefCell, net::Ipv4Addr};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::agent::{Subject, milliseconds};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
};

const NAME: &str = "control/addresses";

/// The numbers of addresses.
const FEW: u32 = 1_000;
const MANY: u32 = 100_000;

/// Limit of the time of the many over that of the few: a hundred times as many, sorted.
const LIMIT: f64 = 150.0;

/// Has the tables take all.
const FLAGS: [&str; 2] = ["--max-frontends", "262144"];

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let mut subject = Subject::start(&bench.options().agent, &FLAGS)?;
    subject.apply(&resync())?;
    let subject = &RefCell::new(subject);
    let set = |addresses: u32| {
        let (added, removed) = (event(addresses), event(0));
        move || {
            let mut subject = subject.borrow_mut();
            let taken = subject.apply(&added)?;
            ensure!(
                taken.writes >= addresses.into(),
                "{addresses} addresses led to {} writes",
                taken.writes
            );
            subject.apply(&removed)?;
            Ok(sample([("ms", milliseconds(taken.time))]))
        }
    };
    let [few, many] = [FEW, MANY].map(|addresses| format!("{addresses} addresses"));
    bench.study(
        Study::new(NAME, "an event of one service", Better::Lower)
            .rounds(bench.rounds(7, 3))
            .subject(few.clone(), set(FEW))
            .subject(many.clone(), set(MANY))
            .bound(Bound::ratio(
                "100,000 addresses over 1,000",
                &many,
                &few,
                "ms",
                Limit::AtMost(LIMIT),
            )),
    )?;
    subject.borrow().check(1)
}

fn resync() -> String {
    json!({
        "event": "Resync",
        "node_ips": [],
        "services": [service(0)],
        "frontend_ifs": [],
        "backend_ifs": [],
    })
    .to_string()
}

fn event(addresses: u32) -> String {
    json!({ "event": "UpdateService", "service": service(addresses) }).to_string()
}

/// A service with a ClusterIP, this many external addresses, and one backend.
fn service(addresses: u32) -> Value {
    let first = Ipv4Addr::new(20, 0, 0, 0).to_bits();
    let external: Vec<_> = (0..addresses)
        .map(|number| Ipv4Addr::from_bits(first + number))
        .collect();
    let backend = json!({ "ip": "10.1.0.1", "port": 8080, "local": false, "host_network": false });
    json!({
        "id": { "namespace": "bench", "name": "many" },
        "cluster_ips": ["10.96.0.1"],
        "external_ips": external,
        "traffic_policy": "Cluster",
        "session_affinity_timeout": 0,
        "ports": { "main": { "port": 80, "protocol": "TCP" } },
        "backends": { "main": [backend] },
    })
}
