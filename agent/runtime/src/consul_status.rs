//! The status of the source that follows Consul.

use std::time::SystemTime;

use shunt_api::view::{self, Consul, FailedOver, Gateway, Untranslated};

use crate::consul_state::{ConsulState, KnownGateway, StaleWatch};

/// As `shunt status` has it.
pub(super) fn consul(state: ConsulState) -> Consul {
    let ConsulState {
        address,
        datacenter,
        node,
        hints,
        watches,
        stale,
        synced,
        last_change,
        frontends,
        instances,
        pending,
        pending_since,
        missing_rights,
        skipped,
        failed_over,
        gateways,
        answers: _,
        failures: _,
    } = state;
    // A clock that was set back makes it now.
    let ago = |time: SystemTime| time.elapsed().unwrap_or_default().as_secs();
    let stale = stale.into_iter();
    Consul {
        address,
        datacenter,
        node,
        hints,
        watches,
        stale: stale
            .map(|(service, StaleWatch { since, reason })| view::StaleWatch {
                service,
                since_seconds_ago: ago(since),
                reason,
            })
            .collect(),
        synced,
        last_change_seconds_ago: last_change.map(ago),
        frontends,
        instances,
        pending,
        lag_milliseconds: pending_since.map(|since| since.elapsed().as_millis() as u64),
        missing_rights: missing_rights.into_iter().collect(),
        skipped: skipped
            .into_iter()
            .map(|(service, reasons)| Untranslated { service, reasons })
            .collect(),
        failed_over: failed_over
            .into_iter()
            .map(|(service, datacenter)| FailedOver {
                service,
                datacenter,
            })
            .collect(),
        gateways: gateways
            .into_iter()
            .map(
                |KnownGateway {
                     datacenter,
                     node,
                     id,
                     usable,
                     origin,
                 }| Gateway {
                    datacenter,
                    node,
                    id,
                    usable,
                    origin: origin.to_owned(),
                },
            )
            .collect(),
    }
}
