//! Cost of a `connect(2)` that sends nothing: that of a UDP socket.
//!
//! A socket stays with the cgroup in which it was made, so one process has one in each, and takes turns
//! with them: nothing differs but the programs.

use std::{
    cell::RefCell,
    collections::VecDeque,
    env,
    fs::{self, File},
    io::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    comparison::Comparison,
    node::{Node, Whose, strangers, udp_frontend},
};
use crate::{
    bench::Bench,
    load::{Client, pin, play},
    measure::{Better, Bound, Limit, Spread, Study, sample},
    packets::clock::thread_time,
};

/// The first argument of a process that connects, which is this program once more.
const CONNECT: &str = "connect-load";

/// Number of turns of each socket in a round.
const TURNS: usize = 100;

/// Number of calls in a turn.
const CALLS: usize = 200;

const EMPTY: &str = "an empty program";
const LOOKUP: &str = "one hash lookup";
const FLOOR: &str = "one hash lookup, one of socket storage";
const SHUNT: &str = "Shunt";

/// A socket, and whom it is connected to in turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Part {
    cgroup: PathBuf,
    namespace: PathBuf,
    targets: Vec<SocketAddr>,
}

impl Part {
    fn new(client: Client<'_>, targets: Vec<SocketAddr>) -> Self {
        let Client { cgroup, namespace } = client;
        Self {
            cgroup: cgroup.path().join("cgroup.procs"),
            namespace: namespace.path(),
            targets,
        }
    }

    /// Makes the socket, where it belongs.
    fn open(&self) -> Result<Socket> {
        let Self {
            cgroup,
            namespace,
            targets,
        } = self;
        // 0 is the process that writes.
        fs::write(cgroup, "0").with_context(|| format!("cannot enter {}", cgroup.display()))?;
        let failed = || format!("cannot enter {}", namespace.display());
        let namespace = File::open(namespace).with_context(failed)?;
        setns(namespace, CloneFlags::CLONE_NEWNET).with_context(failed)?;
        let first = targets.first().context("no address to connect to")?;
        let domain = Domain::for_address(*first);
        Ok(Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?)
    }
}

/// Runs the studies.
///
/// # Errors
///
/// When one fails, or the user stops it.
pub(super) fn run(bench: &mut Bench, node: &Node) -> Result<()> {
    let feeder = bench.options().feeder.clone();
    let [empty, lookup, floor] =
        ["empty", "lookup", "floor"].map(|name| Comparison::new(&feeder, name));
    let comparisons = [(EMPTY, empty?), (LOOKUP, lookup?), (FLOOR, floor?)];
    for is_v6 in [false, true] {
        let rounds = bench.rounds(61, 9);
        let rows = Rows::new(is_v6, node, &comparisons);
        bench.study(rows.study(is_v6).rounds(rounds))?;
    }
    Ok(())
}

/// Rows of the comparison, and the figures that no study has read yet. A round of a study is one
/// process, whichever row is the first.
struct Rows<'a> {
    client: Client<'a>,
    parts: Vec<(&'static str, Part)>,
    measured: RefCell<Vec<VecDeque<f64>>>,
}

impl<'a> Rows<'a> {
    fn new(is_v6: bool, node: &'a Node, comparisons: &'a [(&'static str, Comparison)]) -> Self {
        let untouched = node.untouched(Whose::Host);
        let [of_host, of_pod] = [Whose::Host, Whose::Pod].map(|whose| node.translated(whose));
        let stranger = |client| Part::new(client, strangers(is_v6));
        let compared = comparisons.iter().map(|(name, comparison)| {
            let client = Client {
                cgroup: comparison.cgroup(),
                ..untouched
            };
            (*name, stranger(client))
        });
        let parts = compared.chain([
            (SHUNT, stranger(of_host)),
            ("Shunt, a pod's socket", stranger(of_pod)),
            (
                "Shunt, to a service",
                Part::new(of_host, udp_frontend(is_v6)),
            ),
            ("no program", stranger(untouched)),
        ]);
        let parts: Vec<_> = parts.collect();
        Self {
            client: untouched,
            measured: RefCell::new(vec![VecDeque::new(); parts.len()]),
            parts,
        }
    }

    fn study(&self, is_v6: bool) -> Study<'_> {
        let name = format!("sockets/connect-{}", if is_v6 { "v6" } else { "v4" });
        let unit = "ns a call of a UDP socket, to no service where it does not say so";
        let label = format!("{SHUNT} over {EMPTY}, ns");
        let mut study = Study::new(name, unit, Better::Lower);
        for (row, (name, _)) in self.parts.iter().enumerate() {
            study = study.subject(*name, move || Ok(sample([("", self.take(row)?)])));
        }
        study.bound(Bound::new(label, Limit::AtMost(30.0), |round| {
            Some(round.get(SHUNT, "")? - round.get(EMPTY, "")?)
        }))
    }

    /// The next figure of a row.
    fn take(&self, row: usize) -> Result<f64> {
        let mut measured = self.measured.borrow_mut();
        if measured[row].is_empty() {
            // The first of them is asked for twice.
            let rows: Vec<_> = std::iter::once(0).chain(0..self.parts.len()).collect();
            for (row, time) in rows.iter().zip(self.measure(&rows)?) {
                measured[*row].push_back(time);
            }
        }
        measured[row]
            .pop_front()
            .context("a process said too little")
    }

    /// Measures the time of a call in each of these rows.
    fn measure(&self, rows: &[usize]) -> Result<Vec<f64>> {
        let this = env::current_exe().context("cannot find this program")?;
        let parts: Vec<_> = rows.iter().map(|row| &self.parts[*row].1).collect();
        let arguments = [CONNECT, &serde_json::to_string(&parts)?];
        let Client { cgroup, namespace } = self.client;
        let said = cgroup.run(namespace, &this, &arguments)?;
        Ok(serde_json::from_str(&said)?)
    }
}

/// Connects, if that is what this process was started for.
pub(crate) fn connect_if_told() -> Option<ExitCode> {
    play(CONNECT, |arguments| {
        let [parts] = arguments else {
            bail!("not whom");
        };
        let parts: Vec<Part> = serde_json::from_str(parts)?;
        pin()?;
        writeln!(
            io::stdout(),
            "{}",
            serde_json::to_string(&nanoseconds(&parts)?)?
        )?;
        Ok(())
    })
}

/// The time of a call over each of the sockets: the thread's own, the median of [`TURNS`].
fn nanoseconds(parts: &[Part]) -> Result<Vec<f64>> {
    let mut sockets = Vec::new();
    for part in parts {
        let targets: Vec<_> = part.targets.iter().copied().map(SockAddr::from).collect();
        sockets.push((part.open()?, targets, Vec::with_capacity(TURNS)));
    }
    // What comes first finds caches cold, whatever is measured.
    for number in 0..=TURNS {
        for (socket, targets, times) in &mut sockets {
            let start = thread_time();
            for target in targets.iter().cycle().take(CALLS) {
                socket.connect(target)?;
            }
            let took = thread_time().saturating_sub(start);
            if number > 0 {
                times.push(took.as_secs_f64() * 1e9 / CALLS as f64);
            }
        }
    }
    let medians = sockets.into_iter().map(|(_, _, times)| {
        let times = Spread::of(times).context("no times")?;
        Ok(times.median)
    });
    medians.collect()
}
