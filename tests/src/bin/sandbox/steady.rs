//! Traffic while nothing changes.

use anyhow::Result;
use shunt_tests::{Answer, Failure, Target, Transport, bytes_text, duration_text, interrupt};

use crate::{
    cluster::Cluster,
    model::{Client, Kind},
    progress::Progress,
    report::{Report, Row, Stage},
};

/// The length of a request. The answer over TCP has the same; over UDP a line.
pub(crate) const REQUEST: usize = 200;

/// All clients open connections to every frontend that they can use.
pub(crate) fn ask_every_frontend(
    progress: &Progress,
    cluster: &Cluster,
    connections: u32,
    report: &mut Report,
) -> Result<()> {
    for client in cluster.clients() {
        for frontend in cluster.model().frontends(client) {
            interrupt::check()?;
            let target = Target::new(frontend.transport, frontend.address);
            let tally = cluster
                .namespace(client)
                .enter(|| target.ask_times(connections, REQUEST));
            let average = tally.time / u32::try_from(tally.answered().max(1)).unwrap_or(u32::MAX);
            progress.say(
                "traffic",
                format_args!(
                    "{client} to {frontend}: {} answered, {} on average",
                    tally.answered(),
                    duration_text(average)
                ),
            );
            report.check_shares(&frontend, &tally);
            report.add(Row {
                stage: Stage::Steady,
                client,
                frontend,
                tally,
            });
        }
    }
    Ok(())
}

/// Moves `bytes` through one ClusterIP and one external frontend, in both directions.
pub(crate) fn transfer(
    progress: &Progress,
    cluster: &Cluster,
    bytes: u64,
    report: &mut Report,
) -> Result<()> {
    for (client, kind) in [
        (Client::Pod, Kind::ClusterIp),
        (Client::Outside, Kind::ExternalIp),
    ] {
        interrupt::check()?;
        let mut frontends = cluster.model().frontends(client).into_iter();
        let Some(frontend) =
            frontends.find(|found| found.transport == Transport::Tcp && found.kind == kind)
        else {
            progress.say("bulk", format_args!("the events have no {kind} over TCP"));
            continue;
        };
        let target = Target::tcp(frontend.address);
        let outcome = cluster.namespace(client).enter(|| {
            let mut connection = target.connect()?;
            let there = connection.send(bytes)?;
            let back = connection.fetch(bytes)?;
            Ok::<_, Failure>((there, back))
        });
        match outcome {
            Ok((there, back)) => {
                for (direction, answer) in [("to", &there), ("from", &back)] {
                    let rate = rate(answer);
                    let amount = bytes_text(bytes);
                    let text = format!(
                        "{client}: {amount} {direction} {} through {frontend}: {rate}, checksum right",
                        answer.name
                    );
                    progress.say("bulk", text);
                }
            }
            Err(failure) => {
                report.problem(format!(
                    "bulk transfer from {client} through {frontend}: {failure}"
                ));
            }
        }
    }
    Ok(())
}

fn rate(answer: &Answer) -> String {
    let micros = answer.latency.as_micros().max(1);
    let per_second = u128::from(answer.bytes) * 1_000_000 / micros;
    format!(
        "{}/s",
        bytes_text(u64::try_from(per_second).unwrap_or(u64::MAX))
    )
}
