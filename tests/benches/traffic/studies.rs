//! The comparisons.

use anyhow::{Result, bail};

use super::{
    path::Path,
    subject::{Kind, Proxy, Subject},
};
use crate::{
    bench::Bench,
    load::{self, Exchange},
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const EXCHANGES: [Exchange; 6] = [
    Exchange::Request,
    Exchange::Connection,
    Exchange::ServerCloses,
    Exchange::Datagram,
    Exchange::NewFlow,
    Exchange::Bulk,
];

/// Runs all studies.
pub(super) fn run(bench: &mut Bench, subjects: &[Subject]) -> Result<()> {
    for path in Path::ALL {
        for masquerade in [false, true] {
            let subjects: Vec<_> = subjects
                .chunk_by(|one, next| one.kind() == next.kind())
                .filter(|same| same[0].kind().masquerade == masquerade)
                .collect();
            for exchange in EXCHANGES {
                let quick = bench.options().quick;
                bench.study(study(quick, path, exchange, masquerade, &subjects))?;
            }
        }
    }
    Ok(())
}

/// A study of subjects, those of a kind together.
fn study<'a>(
    quick: bool,
    path: Path,
    exchange: Exchange,
    masquerade: bool,
    subjects: &[&'a [Subject]],
) -> Study<'a> {
    let better = match exchange {
        Exchange::Bulk => Better::Higher,
        _ => Better::Lower,
    };
    let node = if masquerade { "-masquerading" } else { "" };
    let rounds = match (quick, path) {
        (false, Path::SameNode) => 61,
        (false, _) => 31,
        (true, Path::SameNode) => 15,
        (true, _) => 5,
    };
    let name = format!("traffic/{}{node}/{}", path.word(), exchange.word());
    let mut study = Study::new(name, exchange.unit(), better).rounds(rounds);
    for &same in subjects {
        let mut turns = same.iter().cycle();
        study = study.subject(same[0].name(), move || match turns.next() {
            Some(subject) => measure(subject, path, exchange),
            None => bail!("there is no subject of this kind"),
        });
    }
    if path == Path::SameNode && !masquerade {
        for bound in bounds(exchange, subjects) {
            study = study.bound(bound);
        }
    }
    study
}

pub(crate) fn measure(subject: &Subject, path: Path, exchange: Exchange) -> Result<Sample> {
    let load::Exchanged { times, .. } = load::run(
        exchange,
        exchange.times(),
        path.client(subject),
        path.target(subject, exchange),
        subject.served(path.place()),
        &mut subject.ports().borrow_mut(),
    )?;
    let (p50, p99) = times.p50_and_p99();
    Ok(match exchange {
        Exchange::Bulk => {
            let rate =
                |count: f64, nanoseconds: f64| count * load::BULK_UNIT as f64 / nanoseconds * 1e3;
            sample([
                ("mean", rate(times.count() as f64, times.sum())),
                ("p50", rate(1.0, p50)),
                ("p99", rate(1.0, p99)),
            ])
        }
        _ => sample([("p50", p50 / 1e3), ("p99", p99 / 1e3)]),
    })
}

/// Returns Shunt's bounds.
fn bounds<'a>(exchange: Exchange, subjects: &[&'a [Subject]]) -> Vec<Bound<'a>> {
    let name = |proxy: Proxy, others: usize| {
        subjects.iter().find_map(|same| {
            let kind = Kind {
                proxy,
                others,
                masquerade: false,
            };
            (same[0].kind() == kind).then_some(same[0].name())
        })
    };
    let (limit, redirected, more) = match exchange {
        Exchange::Request => (Limit::AtMost(1.05), Some(0.95), Limit::AtMost(1.02)),
        Exchange::Connection => (Limit::AtMost(1.09), Some(0.98), Limit::AtMost(1.02)),
        Exchange::NewFlow => (Limit::AtMost(1.5), None, Limit::AtMost(1.02)),
        Exchange::Bulk => (Limit::AtLeast(0.97), None, Limit::AtLeast(0.98)),
        Exchange::ServerCloses | Exchange::Datagram | Exchange::SendTo => return Vec::new(),
    };
    let mut bounds = Vec::new();
    let mut bound = |subject: Option<&'a str>, other: Option<&'a str>, limit| {
        if let (Some(subject), Some(other)) = (subject, other) {
            let label = format!("{subject} over {other}");
            bounds.push(Bound::ratio(label, subject, other, "p50", limit));
        }
    };
    let direct = name(Proxy::Direct, 0);
    let shunt = name(Proxy::Shunt, 0);
    bound(shunt, direct, limit);
    bound(name(Proxy::Shunt, 10_000), shunt, more);
    if let Some(limit) = redirected {
        bound(name(Proxy::Redirect, 0), direct, Limit::AtMost(limit));
    }
    bounds
}
