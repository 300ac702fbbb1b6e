//! The remembered workloads of a Service are those that looking at all of them would find.

use std::collections::BTreeSet;

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

use super::world::{desired, service, workload};
use crate::{
    controllers::workloads::{desired::Desired, service::Service, store::Store},
    objects::external_workload::{ExternalWorkload, Group},
    watch::step::Step,
};

/// A report of the server.
#[derive(Debug, Clone)]
enum Told {
    Services(Step<Service>),
    Workloads(Step<ExternalWorkload>),
}

/// One of three, with one of two selectors, everything, or none.
fn any_service() -> impl Strategy<Value = Service> {
    let selector = option::of(option::of(0..2_u8));
    (0..3_u8, selector, any::<bool>()).prop_map(|(number, selector, is_headless)| {
        let selector = match selector {
            None => Value::Null,
            Some(None) => json!({}),
            Some(Some(app)) => json!({ "app": format!("app-{app}") }),
        };
        let name = format!("service-{number}");
        service(json!({
            "metadata": { "namespace": "a", "name": name, "uid": name },
            "spec": {
                "selector": selector, "ipFamilies": ["IPv4"],
                "clusterIP": if is_headless { "None" } else { "10.96.0.1" },
                "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080 }],
            },
        }))
    })
}

/// One of four, in one of two namespaces, with one of two labels and of two addresses, ready or not.
fn any_workload() -> impl Strategy<Value = ExternalWorkload> {
    (0..4_u8, 0..2_u8, 0..2_u8, any::<bool>(), 0..3_u8).prop_map(
        |(number, app, ip, is_ready, version)| {
            let ready = if is_ready { "True" } else { "False" };
            workload(
                &format!("vm-{number}"),
                &format!("192.0.2.{ip}"),
                &[
                    (
                        "/metadata/namespace",
                        json!(["a", "b"][usize::from(number % 2)]),
                    ),
                    ("/metadata/labels", json!({ "app": format!("app-{app}") })),
                    // Of which nothing follows.
                    ("/metadata/resourceVersion", json!(version.to_string())),
                    ("/status/conditions/0/status", json!(ready)),
                ],
            )
        },
    )
}

fn steps<T: Clone + std::fmt::Debug>(
    object: impl Strategy<Value = T> + Clone,
    name: fn(&T) -> String,
) -> impl Strategy<Value = Step<T>> {
    let list = vec(object.clone(), 0..5).prop_map(move |mut list| {
        let mut seen = BTreeSet::new();
        list.retain(|one| seen.insert(name(one)));
        Step::listed(list)
    });
    prop_oneof![
        1 => list,
        6 => object.clone().prop_map(Step::Applied),
        2 => object.prop_map(Step::Deleted),
    ]
}

fn any_told() -> impl Strategy<Value = Told> {
    let services = steps(any_service().boxed(), |one| one.id.name.to_string());
    let workloads = steps(any_workload().boxed(), |one| one.key.name.to_string());
    prop_oneof![
        1 => services.prop_map(Told::Services),
        3 => workloads.prop_map(Told::Workloads),
    ]
}

proptest! {
    #[test]
    fn those_are_remembered_that_a_service_selects(told in vec(any_told(), 1..40)) {
        let mut store = Store::new(false);
        for step in told {
            match step {
                Told::Services(step) => drop(store.take_services(step)),
                Told::Workloads(step) => {
                    drop(store.take_workloads(Group::Shunt, step, &mut BTreeSet::new()));
                }
            }
            let services: Vec<Service> = store
                .all()
                .iter()
                .filter_map(|id| store.service(id).map(|service| Service::clone(service)))
                .collect();
            for service in services {
                let wanted: Vec<ExternalWorkload> = store
                    .workloads()
                    .filter(|one| one.key.namespace == service.id.namespace)
                    .filter(|one| service.selects(&one.labels))
                    .map(|one| ExternalWorkload::clone(one))
                    .collect();
                let selected = store.selected(&service);
                let known = selected.values().map(|one| &**one.workload());
                prop_assert_eq!(known.collect::<Vec<_>>(), wanted.iter().collect::<Vec<_>>());
                let found = Desired::of(&service, selected.values().map(|one| &**one));
                prop_assert_eq!(found.families, desired(&service, &wanted).families);
            }
        }
    }
}
