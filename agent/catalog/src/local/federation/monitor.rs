//! The report on a federation.

use std::{collections::BTreeMap, time::SystemTime};

use shunt_api::view;

use crate::local::federation::{
    record::Record,
    shared::{Contact, Federation},
};

impl Federation {
    /// As it is now; `failed_over` are the frontends that another datacenter serves, and which.
    pub(crate) fn shown(&self, failed_over: BTreeMap<String, String>) -> view::Federation {
        let options = self.options();
        let states = self.states();
        let Contact {
            replication,
            since,
            trouble,
        } = self.contact();
        let origin = |record: &Record| {
            if record.datacenter == options.datacenter {
                "this datacenter".to_owned()
            } else if self.is_primary() {
                format!("told by {}", record.datacenter)
            } else {
                format!("copied from {}", options.primary)
            }
        };
        let gateways = states.records.values().flat_map(|record| {
            let all = record.mesh_gateways.iter();
            all.map(move |gateway| view::Gateway {
                datacenter: record.datacenter.clone(),
                node: gateway.node.node.clone(),
                id: gateway.service.id.clone(),
                usable: gateway.is_usable(),
                origin: origin(record),
            })
        });
        let since = SystemTime::now().duration_since(since).unwrap_or_default();
        view::Federation {
            datacenter: options.datacenter.clone(),
            primary: options.primary.clone(),
            up_to_date: trouble.is_none() && (self.is_primary() || replication.has_worked()),
            since_seconds_ago: since.as_secs(),
            trouble,
            index: states.index,
            failures: self.failures(),
            gateways: gateways.collect(),
            failed_over: failed_over
                .into_iter()
                .map(|(service, datacenter)| view::FailedOver {
                    service,
                    datacenter,
                })
                .collect(),
        }
    }
}
