//! The load generator's own share of the times.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::Result;

use super::{path::Path, services::SERVED, subject::Subject};
use crate::{
    load::{self, Exchange, Exchanged, Times},
    report::Facts,
};

/// Number of requests: about a second of them, so that the clock's ticks find the generator often enough.
const REQUESTS: usize = 50_000;

/// The same load with less and less around it, and what share of it is spent outside the kernel.
pub(super) fn facts(direct: &Subject) -> Result<Facts> {
    let path = Path::SameNode;
    let request = |client, target| {
        load::run(
            Exchange::Request,
            REQUESTS,
            client,
            target,
            direct.served(path.place()),
            &mut direct.ports().borrow_mut(),
        )
    };
    let pod = direct.sandbox().pod(path.place().pod()).namespace();
    let over_loopback = request(pod, SocketAddrV4::new(Ipv4Addr::LOCALHOST, SERVED))?;
    let over_node = request(path.client(direct), path.target(direct, Exchange::Request))?;
    let alone = load::nothing(REQUESTS)?;
    let pair = load::socket_pair(REQUESTS)?;
    let cpu = load::cpu()?;

    let p50 = |times: &Times| format!("{:.2} us", times.p50_and_p99().0 / 1e3);
    let Exchanged { times, took, user } = &over_node;
    let share = 100.0 * user.as_secs_f64() / took.as_secs_f64();
    let rows = [
        (
            "CPU of clients, servers and softirqs",
            format!("number {cpu}"),
        ),
        ("TCP request, pod to pod, p50", p50(times)),
        ("TCP request, loopback, p50", p50(&over_loopback.times)),
        ("request over a pair of Unix sockets, p50", p50(&pair)),
        ("the loop without a request, p50", p50(&alone)),
        (
            "user time of client and server, pod to pod",
            format!("{share:.1} %"),
        ),
    ];
    Ok(Facts {
        name: "traffic/generator".to_owned(),
        columns: vec!["what", "measured"],
        rows: rows
            .into_iter()
            .map(|(what, measured)| vec![what.to_owned(), measured])
            .collect(),
    })
}
