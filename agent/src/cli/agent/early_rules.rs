//! Looking again and again for netfilter's rules that filter packets before addresses are translated.

use std::{io, time::Duration};

use shunt_model::FrontendKey;
use shunt_runtime::{HostPart, Inspector};
use tokio::{task::spawn_blocking, time::sleep};
use tracing::warn;

use crate::host::early_rules::EarlyRules;

/// Interval of the looks.
const INTERVAL: Duration = Duration::from_mins(1);

/// Interval as long as no frontends are known to compare rules with.
const UNTIL_FRONTENDS: Duration = Duration::from_secs(5);

/// Logs the rules that have no effect on packets to services, and has the status show them, now and each minute.
/// The rules are read beside the event loop, which is asked for frontends only if there are rules to compare them with.
pub(super) fn watch_early_rules(inspector: Inspector) {
    tokio::spawn(async move {
        loop {
            sleep(look(&inspector).await).await;
        }
    });
}

/// Returns the time until the next look.
async fn look(inspector: &Inspector) -> Duration {
    let read = spawn_blocking(EarlyRules::read).await;
    let rules = match read.map_err(io::Error::other).flatten() {
        Ok(rules) => rules,
        Err(error) => {
            warn!(%error, "netfilter's rules before the translation cannot be read");
            return INTERVAL;
        }
    };
    let mut frontends: Vec<FrontendKey> = Vec::new();
    if rules.depends_on_frontends() {
        // The agent is ending.
        let Ok(wanted) = inspector.wanted().await else {
            return INTERVAL;
        };
        frontends.extend(wanted.into_iter().map(|(key, _)| key));
    }
    let is_early = rules.depends_on_frontends() && frontends.is_empty();
    let complaint = spawn_blocking(move || rules.complaint(&frontends)).await;
    match complaint {
        Ok(complaint) => {
            let complaints = complaint.into_iter().collect();
            inspector
                .reports()
                .set_host(HostPart::EarlyRules, complaints);
        }
        Err(error) => warn!(%error, "comparing netfilter's rules with frontends failed"),
    }
    if is_early { UNTIL_FRONTENDS } else { INTERVAL }
}
