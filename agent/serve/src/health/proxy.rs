//! `/healthz` and `/livez`, as kube-proxy answers them.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use hyper::{Request, body::Incoming};
use serde::Serialize;
use shunt_http::{Answer, Answers, Peer, answer, not_found, verdict};
use shunt_runtime::{FamilyHealth, Health, IpFamily, Reports};

/// Go's form of a time that never was.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Answers for the agent's health.
#[derive(Debug)]
pub(crate) struct ProxyHealth {
    reports: Arc<Reports>,
    families: Vec<IpFamily>,
}

impl ProxyHealth {
    /// By what is reported, of the families that are translated.
    pub(crate) const fn new(reports: Arc<Reports>, families: Vec<IpFamily>) -> Self {
        Self { reports, families }
    }
}

impl Answers for ProxyHealth {
    async fn answer(&self, request: Request<Incoming>, _peer: Peer) -> Answer {
        match request.uri().path() {
            "/healthz" => self.respond(true),
            "/livez" => self.respond(false),
            _ => not_found(),
        }
    }
}

impl ProxyHealth {
    /// Answers `/healthz` if the question is for the node too, and else `/livez`.
    pub(super) fn respond(&self, asks_of_node: bool) -> Answer {
        let report = Report::new(
            &self.reports.health(),
            &self.families,
            asks_of_node,
            Instant::now(),
            SystemTime::now(),
        );
        let meters = self.reports.meters();
        if asks_of_node {
            meters.answered_healthz(report.is_well());
        } else {
            meters.answered_livez(report.is_well());
        }
        let body = serde_json::to_string(&report).unwrap_or_default();
        answer(verdict(report.is_well()), "application/json", body)
    }
}

/// Content of an answer. The order of the fields is that of the answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    last_updated: String,
    current_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_eligible: Option<bool>,
    healthy: bool,
    status: BTreeMap<&'static str, FamilyReport>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct FamilyReport {
    last_updated: String,
    healthy: bool,
}

impl Report {
    fn new(
        health: &Health,
        families: &[IpFamily],
        asks_of_node: bool,
        now: Instant,
        current: SystemTime,
    ) -> Self {
        let of = |family: &IpFamily| health.family(*family, now);
        // A node that translates nothing yet is alive, and is to get no clients.
        let healthy = families.iter().all(|family| of(family).healthy)
            && (!asks_of_node || health.is_translating());
        let node_eligible = asks_of_node.then(|| health.is_node_eligible());
        let newest = families
            .iter()
            .filter_map(|family| of(family).updated)
            .max();
        let is_well = healthy && node_eligible != Some(false);
        Self {
            // Load balancers of old take it for the time of the last look, not of the last change.
            last_updated: time(if is_well { Some(current) } else { newest }),
            current_time: time(Some(current)),
            node_eligible,
            healthy,
            status: families
                .iter()
                .map(|family| {
                    let FamilyHealth { healthy, updated } = of(family);
                    let last_updated = time(updated);
                    (
                        family.name(),
                        FamilyReport {
                            last_updated,
                            healthy,
                        },
                    )
                })
                .collect(),
        }
    }

    fn is_well(&self) -> bool {
        self.healthy && self.node_eligible != Some(false)
    }
}

/// In RFC 3339's form.
fn time(time: Option<SystemTime>) -> String {
    match time {
        Some(time) if time >= UNIX_EPOCH => humantime::format_rfc3339_nanos(time).to_string(),
        _ => NEVER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use shunt_runtime::{ByFamily, Pending};

    use super::*;

    /// The answer a minute and a half after 1970 began, with changes that have waited for so long,
    /// in seconds.
    fn report(
        asks_of_node: bool,
        node_eligible: Option<bool>,
        waiting: [Option<u64>; 2],
    ) -> (bool, Value) {
        let start = Instant::now();
        let now = start + Duration::from_secs(90);
        let since = |waited: Option<u64>| {
            waited.and_then(|waited| now.checked_sub(Duration::from_secs(waited)))
        };
        let health = Health {
            node_eligible,
            pending: Pending {
                oldest: ByFamily {
                    v4: since(waiting[0]),
                    v6: since(waiting[1]),
                },
                ..Pending::default()
            },
            updated: ByFamily {
                v4: Some(UNIX_EPOCH + Duration::from_secs(20)),
                v6: None,
            },
            ..Health::default()
        };
        answered(&health, asks_of_node, now)
    }

    fn answered(health: &Health, asks_of_node: bool, now: Instant) -> (bool, Value) {
        let current = UNIX_EPOCH + Duration::from_secs(90);
        let report = Report::new(health, &IpFamily::ALL, asks_of_node, now, current);
        (report.is_well(), serde_json::to_value(report).unwrap())
    }

    const NOW: &str = "1970-01-01T00:01:30.000000000Z";
    const UPDATED: &str = "1970-01-01T00:00:20.000000000Z";

    #[test]
    fn a_healthy_agent_was_just_updated() {
        for (node_eligible, shown) in [(None, true), (Some(true), true)] {
            let expected = json!({
                "lastUpdated": NOW,
                "currentTime": NOW,
                "nodeEligible": shown,
                "healthy": true,
                "status": {
                    "IPv4": { "lastUpdated": UPDATED, "healthy": true },
                    "IPv6": { "lastUpdated": NEVER, "healthy": true },
                },
            });
            let waiting = [Some(59), None];
            assert_eq!(report(true, node_eligible, waiting), (true, expected));
        }
    }

    #[test]
    fn a_change_that_waits_makes_both_answers_503() {
        for (asks_of_node, eligible) in [(true, json!(true)), (false, Value::Null)] {
            let (is_well, answer) = report(asks_of_node, None, [Some(60), None]);
            assert!(!is_well);
            assert_eq!(answer["nodeEligible"], eligible);
            assert_eq!(answer["healthy"], false);
            assert_eq!(answer["lastUpdated"], UPDATED, "the newest real one");
            assert_eq!(answer["status"]["IPv4"]["healthy"], false);
            assert_eq!(answer["status"]["IPv6"]["healthy"], true);
        }
    }

    #[test]
    fn a_node_that_translates_nothing_yet_is_alive() {
        let health = Health::default();
        let (is_well, answer) = answered(&health, true, Instant::now());
        assert!(!is_well);
        assert_eq!(answer["healthy"], false);
        assert!(answered(&health, false, Instant::now()).0);
    }

    #[test]
    fn a_node_that_leaves_is_alive() {
        let (is_well, answer) = report(true, Some(false), [None, None]);
        assert!(!is_well);
        assert_eq!(answer["nodeEligible"], false);
        assert_eq!(answer["healthy"], true);
        let (is_well, answer) = report(false, Some(false), [None, None]);
        assert!(is_well);
        assert_eq!(answer.get("nodeEligible"), None);
    }
}
