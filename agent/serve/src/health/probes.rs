//! `/livez` and `/readyz`, for kubelet's probes alone. No configuration of kube-proxy moves or closes this
//! listener: kubelet kills an agent whose probe has no answer.

use std::sync::Arc;

use hyper::{Request, body::Incoming};
use shunt_http::{Answer, Answers, Peer, not_found, text, verdict};
use shunt_runtime::{Health, IpFamily, Reports};

use crate::health::proxy::ProxyHealth;

/// Answers for probes.
#[derive(Debug)]
pub(crate) struct Probes {
    health: ProxyHealth,
    reports: Arc<Reports>,
}

impl Probes {
    /// Answers by `reports`, of the families that are translated.
    pub(crate) fn new(reports: Arc<Reports>, families: Vec<IpFamily>) -> Self {
        Self {
            health: ProxyHealth::new(Arc::clone(&reports), families),
            reports,
        }
    }
}

impl Answers for Probes {
    async fn answer(&self, request: Request<Incoming>, _peer: Peer) -> Answer {
        match request.uri().path() {
            "/livez" => self.health.respond(false),
            "/readyz" => readiness(&self.reports.health()),
            _ => not_found(),
        }
    }
}

/// Answers 200 once the first Resync is applied, as long as the kernel has refused no hook. Neither the node's
/// eligibility nor a change that waits counts: a rollout goes on or stops by what this version did on this node.
fn readiness(health: &Health) -> Answer {
    let mut reasons = Vec::new();
    if !health.synced {
        reasons.push("no Resync was applied yet".to_owned());
    }
    let failed = health.failed_hooks.iter();
    reasons.extend(failed.map(|hook| format!("a hook failed: {hook}")));
    if reasons.is_empty() {
        return text(verdict(true), "ok");
    }
    text(verdict(false), reasons.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use hyper::StatusCode;
    use shunt_runtime::{ByFamily, Pending};

    use super::*;

    #[test]
    fn an_agent_is_ready_once_a_resync_was_applied() {
        let unsynced = Health {
            over_pinned_tables: true,
            updated: ByFamily {
                v4: Some(SystemTime::now()),
                v6: Some(SystemTime::now()),
            },
            ..Health::default()
        };
        let status = |health: &Health| readiness(health).status();
        assert_eq!(status(&unsynced), StatusCode::SERVICE_UNAVAILABLE);
        let synced = Health {
            synced: true,
            ..Health::default()
        };
        assert_eq!(status(&synced), StatusCode::OK);
    }

    #[test]
    fn an_agent_whose_hook_failed_is_not_ready() {
        let health = Health {
            synced: true,
            failed_hooks: vec!["eth0: refused".to_owned()],
            ..Health::default()
        };
        assert_eq!(readiness(&health).status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn neither_a_node_that_leaves_nor_a_change_that_waits_makes_an_agent_unready() {
        let since = Instant::now().checked_sub(Duration::from_mins(2));
        let health = Health {
            node_eligible: Some(false),
            pending: Pending {
                refused: 3,
                oldest: ByFamily {
                    v4: since,
                    v6: since,
                },
                ..Pending::default()
            },
            synced: true,
            ..Health::default()
        };
        assert_eq!(readiness(&health).status(), StatusCode::OK);
    }
}
