//! Time of a lookup inside the agent, among many backends: the model alone, without a socket.

use std::{net::IpAddr, num::NonZeroU16, time::Instant};

use anyhow::{Result, anyhow, ensure};
use shunt_model::{Protocol, Query, RenderOptions, Renderer, TargetKind, decode};

use super::world::{LARGE, World, cluster_ip};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const NAME: &str = "control/lookup";

/// Limit of the time of a lookup, in microseconds.
const LIMIT: f64 = 50.0;

/// Number of lookups in a round.
const LOOKUPS: u32 = 10_000;

/// Runs the study.
///
/// # Errors
///
/// If the model does not answer as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let renderer = told(&LARGE.resync())?;
    let frontend = |number: u32| {
        let address = IpAddr::V4(cluster_ip(number % LARGE.services));
        let port = NonZeroU16::new(80);
        Query::address(address, port, Some(Protocol::Tcp))
    };
    let backend = |number: u32| {
        let address = World::backend(number % LARGE.all_backends());
        Query::address(IpAddr::V4(address), None, None)
    };
    bench.study(
        Study::new(NAME, "us a lookup, among 250,000 backends", Better::Lower)
            .rounds(bench.rounds(7, 3))
            .subject("a ClusterIP with 50 endpoints", || {
                times(&renderer, TargetKind::ClusterIp, 50, frontend)
            })
            .subject("an endpoint's address", || {
                times(&renderer, TargetKind::Unknown, 0, backend)
            })
            .bound(Bound::figure(
                "50 endpoints, us",
                "a ClusterIP with 50 endpoints",
                "p99",
                Limit::AtMost(LIMIT),
            )),
    )
}

/// A renderer after this event.
pub(super) fn told(line: &str) -> Result<Renderer> {
    let mut renderer = Renderer::new(RenderOptions::default());
    let event = decode(line).map_err(|error| anyhow!("{error}"))?;
    let plan = renderer.plan(event)?;
    renderer.commit(plan);
    Ok(renderer)
}

fn times(
    renderer: &Renderer,
    kind: TargetKind,
    endpoints: usize,
    query: impl Fn(u32) -> Query,
) -> Result<Sample> {
    let mut times = Vec::with_capacity(LOOKUPS as usize);
    for number in 0..LOOKUPS {
        // Spread over all, since 7,919 is a prime.
        let query = query(number.wrapping_mul(7_919));
        let begin = Instant::now();
        let answer = renderer.lookup(&query);
        times.push(begin.elapsed().as_secs_f64() * 1e6);
        let found = (answer.kind(), answer.endpoints.len());
        ensure!(found == (kind, endpoints), "{query}: {found:?}");
        let is_behind = kind != TargetKind::Unknown || !answer.member_of.is_empty();
        ensure!(is_behind, "{query} is behind no service");
    }
    times.sort_by(f64::total_cmp);
    let at = |hundredth: usize| times[times.len() * hundredth / 100];
    Ok(sample([("p50", at(50)), ("p99", at(99))]))
}
