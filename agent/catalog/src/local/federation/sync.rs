//! Gateways go to the primary, and come from it.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::{
    instances::frontend::Frontend,
    local::{
        federation::{
            ask,
            own::own_gateways,
            pace::{Pace, backoff},
            shared::Federation,
        },
        registrar::Registrar,
    },
};

/// So many changes of the own gateways go out at once, and then one each interval, as in Consul.
const PUSHES: (u32, Duration) = (5, Duration::from_secs(5));

/// So many reads of the primary's records follow at once.
const PULLS: (u32, Duration) = (5, Duration::from_secs(1));

/// Time that a change that was sent may be on its way back, before it is sent again.
const RETURN: Duration = Duration::from_secs(10);

/// Has the primary know this datacenter's gateways, for ever.
pub(super) async fn push(federation: Federation, registrar: Registrar, frontends: Vec<Frontend>) {
    let (burst, interval) = PUSHES;
    let mut pace = Pace::new(burst, interval);
    let mut registered = registrar.changes();
    let mut known = federation.changes();
    let datacenter = federation.options().datacenter.clone();
    let mut failures = 0;
    loop {
        registered.mark_unchanged();
        let own = own_gateways(&registrar, &frontends, &datacenter);
        let is_known = {
            let states = known.borrow_and_update();
            let record = states.records.get(&datacenter);
            record.map_or(own.is_empty(), |record| record.mesh_gateways == own)
        };
        if !is_known {
            pace.turn().await;
            // What has changed meanwhile goes with it.
            let own = own_gateways(&registrar, &frontends, &datacenter);
            let sent = if federation.is_primary() {
                federation.put(&datacenter, own).await
            } else {
                match (federation.way(), federation.tokens().get(&datacenter)) {
                    (Ok(way), Some(token)) => ask::write(&way, token, &datacenter, &own).await,
                    (Err(error), _) => Err(error),
                    (_, None) => Err(format!("{datacenter} has no token")),
                }
            };
            if let Err(error) = sent {
                federation.failed(&error);
                sleep(backoff(failures)).await;
                failures += 1;
                continue;
            }
            failures = 0;
            if federation.is_primary() {
                federation.works();
            }
        }
        let changed = async {
            tokio::select! {
                changed = registered.changed() => changed.is_ok(),
                changed = known.changed() => changed.is_ok(),
            }
        };
        if timeout(RETURN, changed).await == Ok(false) {
            return;
        }
    }
}

/// Copies what the primary knows, for ever.
pub(super) async fn pull(federation: Federation) {
    let (burst, interval) = PULLS;
    let mut pace = Pace::new(burst, interval);
    let datacenter = federation.options().datacenter.clone();
    let mut index = 0;
    let mut failures = 0;
    loop {
        pace.turn().await;
        let read = match (federation.way(), federation.tokens().get(&datacenter)) {
            (Ok(way), Some(token)) => ask::read(&way, token, index).await,
            (Err(error), _) => Err(error),
            (_, None) => Err(format!("{datacenter} has no token")),
        };
        let copied = match read {
            Ok(remote) => {
                index = remote.index;
                federation.copied(remote).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = copied {
            // After an error everything is read: the primary may be another one.
            index = 0;
            federation.failed(&error);
            sleep(backoff(failures)).await;
            failures += 1;
        } else {
            failures = 0;
        }
    }
}
