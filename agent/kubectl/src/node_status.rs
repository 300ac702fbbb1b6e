//! A node's status in a row, and what is not right there.

use shunt_api::view::{
    InterfaceState, Listener, LocalApi, SocketLbMode, Source, Status, TableUse, UplinkState,
};
use shunt_print::elapsed::duration;

use crate::{cluster::Member, fleet::Heard};

/// Time from which on a change that waits is a problem, in milliseconds.
const LAG: u64 = 60_000;

/// Use of a table from which on it is a problem, in percent.
const CROWDED: u64 = 90;

/// Headings of a [`Row`].
pub(crate) const HEADINGS: [&str; 10] = [
    "NODE",
    "STATE",
    "VERSION",
    "SOURCE",
    "DIFFERENT",
    "CONFLICTS",
    "DROPPED",
    "TABLES",
    "HOOKS",
    "KERNEL",
];

/// Names of counters of dropped packets begin so.
const DROP: &str = "drop_";

/// State of a node. The worst comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Health {
    /// The agent does not answer.
    Silent,
    /// Translation is not what the events lead to, or does not follow them.
    Wrong,
    /// Something is in the way.
    Impaired,
    /// There is nothing to do.
    Right,
}

impl Health {
    const fn name(self) -> &'static str {
        match self {
            Self::Silent => "NO ANSWER",
            Self::Wrong => "WRONG",
            Self::Impaired => "IMPAIRED",
            Self::Right => "right",
        }
    }
}

/// A node's status in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) health: Health,
    /// Cells under [`HEADINGS`].
    pub(crate) cells: [String; 10],
    /// Faults, a sentence each.
    pub(crate) problems: Vec<String>,
}

/// Returns the rows of all nodes, the worst first.
pub(crate) fn rows(heard: &[Heard<Status>]) -> Vec<Row> {
    let mut rows: Vec<Row> = heard.iter().map(row).collect();
    rows.sort_by(|one, other| (one.health, &one.cells[0]).cmp(&(other.health, &other.cells[0])));
    rows
}

fn row(heard: &Heard<Status>) -> Row {
    let Heard { member, answer } = heard;
    let kernel = member.kernel.clone().unwrap_or_else(|| "-".to_owned());
    let status = match answer {
        Ok(status) => status,
        Err(reason) => {
            let state = Health::Silent.name();
            let mut cells = ["-"; 10].map(str::to_owned);
            [cells[0], cells[1], cells[9]] = [member.node.clone(), state.to_owned(), kernel];
            return Row {
                health: Health::Silent,
                cells,
                problems: vec![reason.clone()],
            };
        }
    };
    let (wrong, impaired) = (wrong(status), impaired(status, member));
    let health = match (wrong.is_empty(), impaired.is_empty()) {
        (false, _) => Health::Wrong,
        (true, false) => Health::Impaired,
        (true, true) => Health::Right,
    };
    let dropped = status.counters.iter();
    let dropped = dropped.filter(|(name, _)| name.starts_with(DROP));
    let dropped: u64 = dropped.map(|(_, packets)| packets).sum();
    let cells = [
        member.node.clone(),
        health.name().to_owned(),
        status.version.clone(),
        source(status),
        status.differences.len().to_string(),
        status.conflicts.len().to_string(),
        dropped.to_string(),
        fullest(status),
        hooks(status),
        kernel,
    ];
    Row {
        health,
        cells,
        problems: wrong.into_iter().chain(impaired).collect(),
    }
}

/// Returns the reasons for which translation is not what the events lead to, or does not follow them.
fn wrong(status: &Status) -> Vec<String> {
    let mut found = Vec::new();
    if !status.synced {
        found.push(format!(
            "there was no Resync yet, and {} events are held until then",
            status.held
        ));
    }
    if let Some(held) = &status.held_removal {
        let (event, removed, number) = (&held.event, held.removed, held.number);
        found.push(format!(
            "{event} would remove {removed} of {} frontends, and waits for `shunt confirm {number}` or `shunt discard \
             {number}` on the node",
            held.frontends
        ));
    }
    if let Some(source) = &status.source {
        found.extend(not_followed(source));
    }
    if let Some(consul) = &status.consul
        && !consul.stale.is_empty()
    {
        let count = consul.stale.len();
        found.push(format!("{count} queries of Consul are not up to date"));
    }
    for interface in &status.interfaces {
        if let InterfaceState::Failed { reason } = &interface.state {
            found.push(format!("interface {}: {reason}", interface.name));
        }
    }
    if !status.differences.is_empty() {
        found.push(format!(
            "{} frontends of the kernel are not what the events lead to",
            status.differences.len()
        ));
    }
    found
}

/// Returns the reasons for which a source is behind the cluster.
fn not_followed(source: &Source) -> Option<String> {
    let since = duration(source.since_seconds_ago);
    let lag = source.lag_milliseconds.unwrap_or(0);
    match (source.connected, &source.trouble) {
        (false, Some(trouble)) => Some(format!(
            "{} is not up to date for {since}: {trouble}",
            source.name
        )),
        (false, None) => Some(format!("{} is not up to date for {since}", source.name)),
        (true, _) if !source.node.found => Some(format!(
            "the cluster has no node of the name {}",
            source.node.name
        )),
        (true, _) if source.pending > 0 && lag >= LAG => Some(format!(
            "{} services wait for their last change, the oldest for {}",
            source.pending,
            duration(lag / 1000)
        )),
        (true, _) => None,
    }
}

/// Returns what is in the way, though translation follows the events.
fn impaired(status: &Status, member: &Member) -> Vec<String> {
    let mut found = status.host.clone();
    if member.pod.as_ref().is_ok_and(|pod| !pod.is_ready) {
        found.push("the agent's pod is not ready".to_owned());
    }
    if !status.conflicts.is_empty() {
        let count = status.conflicts.len();
        found.push(format!("{count} frontends are wanted by two services"));
    }
    for uplink in &status.uplinks {
        if let UplinkState::Failed { reason } = &uplink.state {
            found.push(format!("XDP at {}: {reason}", uplink.name));
        }
    }
    for Listener { name, problem, .. } in &status.listeners {
        found.extend(problem.iter().map(|problem| format!("{name}: {problem}")));
    }
    let sockets = &status.socket_lb;
    found.extend(sockets.problem.iter().map(|it| format!("socket LB: {it}")));
    let trouble = &status.stale_sockets.trouble;
    found.extend(trouble.iter().map(|it| format!("stale sockets: {it}")));
    if let Some(LocalApi { troubles, .. }) = &status.local_api {
        found.extend(troubles.iter().cloned());
    }
    for table in &status.tables {
        let percent = fill(table);
        if percent >= CROWDED {
            found.push(format!("the table {} is {percent}% full", table.name));
        }
    }
    found
}

/// Returns how far the source is behind.
fn source(status: &Status) -> String {
    let behind = |pending: u64, lag: Option<u64>| match (pending, lag) {
        (0, _) => "up to date".to_owned(),
        (pending, Some(lag)) => format!("{pending} behind {lag}ms"),
        (pending, None) => format!("{pending} failed"),
    };
    match (&status.source, &status.consul) {
        (Some(source), _) if !source.connected => {
            format!("NOT for {}", duration(source.since_seconds_ago))
        }
        (Some(source), _) => behind(source.pending, source.lag_milliseconds),
        (None, Some(consul)) => behind(consul.pending, consul.lag_milliseconds),
        (None, None) => "-".to_owned(),
    }
}

/// Returns the use of a table, in percent.
fn fill(table: &TableUse) -> u64 {
    let TableUse {
        used,
        retired,
        capacity,
        ..
    } = table;
    (used + retired) * 100 / (*capacity).max(1)
}

/// Returns the table with the least room.
fn fullest(status: &Status) -> String {
    let fullest = status.tables.iter().max_by_key(|table| fill(table));
    fullest.map_or_else(
        || "-".to_owned(),
        |table| format!("{} {}%", table.name, fill(table)),
    )
}

/// Returns the number of interfaces with the programs, of how many, and the hooks besides TC.
fn hooks(status: &Status) -> String {
    let there = status.interfaces.iter();
    let there = there.filter(|it| matches!(it.state, InterfaceState::Attached { .. }));
    let mut text = format!("tc {}/{}", there.count(), status.interfaces.len());
    if !status.uplinks.is_empty() {
        let there = status.uplinks.iter();
        let there = there.filter(|it| {
            matches!(
                it.state,
                UplinkState::Native { .. } | UplinkState::Generic { .. }
            )
        });
        text += &format!(", xdp {}/{}", there.count(), status.uplinks.len());
    }
    if status.socket_lb.mode != SocketLbMode::Off {
        text += &format!(", sockets {}", status.socket_lb.hooks.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use shunt_api::{proto::StatusResponse, view::Interface};

    use super::*;
    use crate::cluster::AgentPod;

    fn status() -> Status {
        let mut status = Status::try_from(StatusResponse::default()).unwrap();
        status.synced = true;
        status
    }

    fn heard(node: &str, answer: Result<Status, String>) -> Heard<Status> {
        let pod = AgentPod {
            name: format!("shunt-{node}"),
            is_ready: true,
        };
        let member = Member {
            node: node.to_owned(),
            kernel: Some("6.12".to_owned()),
            pod: Ok(pod),
        };
        Heard { member, answer }
    }

    #[test]
    fn the_worst_node_comes_first() {
        let mut failed = status();
        failed.interfaces.push(Interface {
            name: "eth0".to_owned(),
            pattern: None,
            state: InterfaceState::Failed {
                reason: "no memory".to_owned(),
            },
        });
        let mut unforwarded = status();
        unforwarded.host.push("forwarding is off".to_owned());
        let rows = rows(&[
            heard("a", Ok(status())),
            heard("b", Ok(unforwarded)),
            heard("c", Ok(failed)),
            heard("d", Err("no answer within 15 s".to_owned())),
            heard("e", Err("no agent".to_owned())),
        ]);
        let shown: Vec<(&str, Health)> = rows
            .iter()
            .map(|row| (row.cells[0].as_str(), row.health))
            .collect();
        let expected = [
            ("d", Health::Silent),
            ("e", Health::Silent),
            ("c", Health::Wrong),
            ("b", Health::Impaired),
            ("a", Health::Right),
        ];
        assert_eq!(shown, expected);
        assert_eq!(rows[2].problems, ["interface eth0: no memory"]);
        assert_eq!(rows[0].cells[9], "6.12");
        assert!(rows[4].problems.is_empty());
    }

    #[test]
    fn drops_are_summed_and_the_fullest_table_is_shown() {
        let mut status = status();
        for (name, packets) in [("drop_a", 2), ("drop_b", 3), ("reject_a", 100)] {
            status.counters.insert(name.to_owned(), packets);
        }
        for (name, used) in [("frontends_v4", 10), ("conntrack_v4", 93)] {
            status.tables.push(TableUse {
                name: name.to_owned(),
                used,
                retired: 2,
                capacity: 100,
            });
        }
        let row = row(&heard("a", Ok(status)));
        assert_eq!(row.cells[6], "5");
        assert_eq!(row.cells[7], "conntrack_v4 95%");
        assert_eq!(row.health, Health::Impaired);
        assert_eq!(row.problems, ["the table conntrack_v4 is 95% full"]);
    }

    #[test]
    fn a_node_without_a_resync_is_wrong() {
        let mut status = status();
        (status.synced, status.held) = (false, 3);
        let row = row(&heard("a", Ok(status)));
        assert_eq!(row.health, Health::Wrong);
        assert!(row.problems[0].contains("3 events are held"), "{row:?}");
    }
}
