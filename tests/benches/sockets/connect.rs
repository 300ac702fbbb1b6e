//! What `connect(2)` costs that sends nothing: that of a UDP socket.

use std::{
    env,
    io::{self, Write as _},
    net::SocketAddr,
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    empty::Empty,
    node::{Node, Whose, strangers, udp_frontend},
};
use crate::{
    bench::Bench,
    load::{Client, pin, play},
    measure::{Better, Bound, Limit, Sample, Spread, Study, sample},
    packets::clock::thread_time,
};

/// The first argument of a process that connects, which is this program once more.
const CONNECT: &str = "connect-load";

/// How often the time is taken in a turn.
const TIMES: usize = 50;

/// How many calls are between two times.
const CALLS: usize = 1000;

const EMPTY: &str = "an empty program";
const SHUNT: &str = "Shunt";

/// Runs the studies.
///
/// # Errors
///
/// When one fails, or the user stops it.
pub(super) fn run(bench: &mut Bench, node: &Node) -> Result<()> {
    let empty = Empty::new(&bench.options().feeder)?;
    for is_v6 in [false, true] {
        let rounds = bench.rounds(101, 9);
        bench.study(study(is_v6, node, &empty).rounds(rounds))?;
    }
    Ok(())
}

fn study<'a>(is_v6: bool, node: &'a Node, empty: &'a Empty) -> Study<'a> {
    let name = format!("sockets/connect-{}", if is_v6 { "v6" } else { "v4" });
    let unit = "ns a call of a UDP socket, to no service where it does not say so";
    let calls = move |client: Client<'a>, targets: fn(bool) -> Vec<SocketAddr>| {
        move || connect(client, &targets(is_v6))
    };
    let to_empty = Client {
        cgroup: empty.cgroup(),
        ..node.untouched(Whose::Host)
    };
    let [of_host, of_pod] = [Whose::Host, Whose::Pod].map(|whose| node.translated(whose));
    let label = format!("{SHUNT} over {EMPTY}, ns");
    Study::new(name, unit, Better::Lower)
        .subject(EMPTY, calls(to_empty, strangers))
        .subject(SHUNT, calls(of_host, strangers))
        .subject("Shunt, a pod's socket", calls(of_pod, strangers))
        .subject("Shunt, to a service", calls(of_host, udp_frontend))
        .subject("no program", calls(node.untouched(Whose::Host), strangers))
        .bound(Bound::new(label, Limit::AtMost(30.0), |round| {
            Some(round.get(SHUNT, "")? - round.get(EMPTY, "")?)
        }))
}

/// What a call takes of a process that connects to these addresses in turn.
fn connect(client: Client<'_>, targets: &[SocketAddr]) -> Result<Sample> {
    let Client { cgroup, namespace } = client;
    let this = env::current_exe().context("cannot find this program")?;
    let mut arguments = vec![CONNECT.to_owned()];
    arguments.extend(targets.iter().map(ToString::to_string));
    let said = cgroup.run(namespace, &this, &arguments)?;
    Ok(sample([("", said.trim().parse()?)]))
}

/// Connects, if that is what this process was started for.
pub(crate) fn connect_if_told() -> Option<ExitCode> {
    play(CONNECT, |arguments| {
        let targets: Vec<SocketAddr> = arguments
            .iter()
            .map(|target| target.parse())
            .collect::<Result<_, _>>()?;
        pin()?;
        writeln!(io::stdout(), "{}", nanoseconds(&targets)?)?;
        Ok(())
    })
}

/// The time of a call: the thread's own, the median of [`TIMES`].
fn nanoseconds(targets: &[SocketAddr]) -> Result<f64> {
    let Some(first) = targets.first() else {
        bail!("no address to connect to");
    };
    let socket = Socket::new(
        Domain::for_address(*first),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    let targets: Vec<_> = targets.iter().copied().map(SockAddr::from).collect();
    let mut times = Vec::with_capacity(TIMES);
    // What comes first finds caches cold, whoever is measured.
    for number in 0..=TIMES {
        let start = thread_time();
        for target in targets.iter().cycle().take(CALLS) {
            socket.connect(target)?;
        }
        let took = thread_time().saturating_sub(start);
        if number > 0 {
            times.push(took.as_secs_f64() * 1e9 / CALLS as f64);
        }
    }
    Ok(Spread::of(times).context("no times")?.median)
}
