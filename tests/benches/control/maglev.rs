//! Cost of Maglev tables: time when a service with many backends changes, and memory with many services.

use std::{cell::RefCell, time::Duration};

use anyhow::Result;
use serde_json::json;

use super::{
    agent::{Subject, milliseconds},
    world::{LARGE, World},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const NAME: &str = "control/maglev";

/// One service that is wide.
const ONE: World = World {
    services: 1,
    backends: 10_000,
    node_ports: false,
};

/// Limit of the time of a change of it, in milliseconds.
const LIMIT: f64 = 300.0;

/// Size of a slot, in bytes.
const SLOT: f64 = 16.0;

/// Number of times that another event follows right behind a change.
const TIMES: u32 = 5;

/// Room for all tables twice over, of one family.
const FLAGS: [&str; 4] = ["--ip-families", "ipv4", "--max-slots", "16000000"];

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let binary = bench.options().agent.clone();
    let mut subject = Subject::start(&binary, &FLAGS)?;
    subject.apply(&selecting(&ONE.resync()))?;
    let changing = RefCell::new((subject, 0));
    let [small, large] = ["100", "1000"].map(|entries| {
        let flags = [&FLAGS[..], &["--maglev-entries-per-backend", entries]].concat();
        let mut subject = Subject::start(&binary, &flags)?;
        subject.apply(&selecting(&ONE.resync()))?;
        Ok::<_, anyhow::Error>(RefCell::new((subject, 0)))
    });
    let (small, large) = (small?, large?);
    let behind = |subject: &RefCell<(Subject, u32)>| -> Result<Sample> {
        let (subject, change) = &mut *subject.borrow_mut();
        let mut worst = Duration::ZERO;
        for _ in 0..TIMES {
            *change += 1;
            let first = selecting(&ONE.change(*change));
            let taken = subject.apply_behind(&first, &other(*change))?;
            worst = worst.max(taken.time);
        }
        subject.check(ONE.all_backends() + 1)?;
        Ok(sample([("worst of 5, ms", milliseconds(worst))]))
    };
    let one = ONE.name();
    bench.study(
        Study::new(NAME, "services that select by Maglev", Better::Lower)
            .rounds(bench.rounds(9, 3))
            .slow()
            .subject(one.clone(), || {
                let (subject, change) = &mut *changing.borrow_mut();
                *change += 1;
                let taken = subject.apply(&selecting(&ONE.change(*change)))?;
                subject.check(ONE.all_backends())?;
                Ok(sample([("a change, ms", milliseconds(taken.time))]))
            })
            .subject("another event behind it", || behind(&small))
            .subject("the same at 1,000 entries a backend", || behind(&large))
            .subject(LARGE.name(), || {
                let mut subject = Subject::start(&binary, &FLAGS)?;
                let event = selecting(&LARGE.resync());
                let first = subject.apply(&event)?;
                let again = subject.apply(&event)?;
                subject.check(LARGE.all_backends())?;
                Ok(sample([
                    ("first Resync, ms", milliseconds(first.time)),
                    ("the same again, ms", milliseconds(again.time)),
                    ("writes then", again.writes as f64),
                    ("slots, MB", subject.used("slots")? as f64 * SLOT / 1e6),
                ]))
            })
            .bound(Bound::figure(
                "a change of 10,000 backends, ms",
                &one,
                "a change, ms",
                Limit::AtMost(LIMIT),
            ))
            .bound(Bound::figure(
                "5,000 x 50, the same again, writes",
                &LARGE.name(),
                "writes then",
                Limit::AtMost(0.0),
            )),
    )?;
    Ok(())
}

/// A change of another service, which has one backend and no table.
fn other(change: u32) -> String {
    let ip = format!("10.255.0.{}", 1 + change % 200);
    json!({
        "event": "UpdateService",
        "service": {
            "id": {"namespace": "default", "name": "other"},
            "cluster_ips": ["172.31.255.1"],
            "ports": {"main": {"protocol": "TCP", "port": 80}},
            "backends": {"main": [{"ip": ip, "port": 8080, "local": false}]},
        },
    })
    .to_string()
}

/// The event, with services that select so.
fn selecting(event: &str) -> String {
    event.replace(
        r#""session_affinity_timeout":0"#,
        r#""selection":"maglev","session_affinity_timeout":0"#,
    )
}
