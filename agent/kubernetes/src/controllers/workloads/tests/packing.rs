//! Distribution of endpoints over slices (rules K1 to K6, P10, P11), and the order in which that is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{Server, desired, web, workload};
use crate::{
    controllers::workloads::{
        packing::{AT_MOST, plan},
        raw_slice::RawSlice,
        service::Service,
        slice::Slice,
        write::Write,
    },
    objects::external_workload::ExternalWorkload,
};

/// Has the server have what is to be there; returns how many writes it took. No endpoint that was there and
/// is to be there is missing after any of them.
fn sync(server: &mut Server, service: &Service, workloads: &[ExternalWorkload]) -> usize {
    let desired = desired(service, workloads);
    let wanted: BTreeSet<Arc<str>> = (desired.families.values())
        .flat_map(|groups| groups.values().flat_map(|group| group.keys().cloned()))
        .collect();
    let stays: BTreeSet<Arc<str>> = present(&server.slices)
        .intersection(&wanted)
        .cloned()
        .collect();
    let mut count = 0;
    for write in plan(service, &server.slices, &desired).iter().flatten() {
        server.apply(service, write);
        count += 1;
        let now = present(&server.slices);
        let missing: Vec<_> = stays.difference(&now).collect();
        assert!(missing.is_empty(), "missing after {write:?}: {missing:?}");
    }
    let mut found: Vec<Arc<str>> = endpoints(&server.slices).collect();
    found.sort();
    assert_eq!(
        found,
        wanted.into_iter().collect::<Vec<_>>(),
        "each is there once"
    );
    let sizes = server
        .slices
        .iter()
        .map(|slice| slice.content.endpoints.len());
    assert!(sizes.max().unwrap_or(0) <= AT_MOST);
    let again = plan(service, &server.slices, &desired);
    assert!(again.is_empty(), "nothing is left to be done: {again:?}");
    count
}

fn endpoints(slices: &[Arc<Slice>]) -> impl Iterator<Item = Arc<str>> {
    let endpoints = slices.iter().flat_map(|slice| &slice.content.endpoints);
    endpoints.map(|endpoint| endpoint.identity.clone())
}

fn present(slices: &[Arc<Slice>]) -> BTreeSet<Arc<str>> {
    endpoints(slices).collect()
}

fn many(
    numbers: impl IntoIterator<Item = usize>,
    changes: &[(&str, Value)],
) -> Vec<ExternalWorkload> {
    let one = |number: usize| {
        let ip = format!("10.0.{}.{}", number / 250, number % 250 + 1);
        workload(&format!("vm-{number:05}"), &ip, changes)
    };
    numbers.into_iter().map(one).collect()
}

fn sizes(server: &Server) -> Vec<usize> {
    let mut sizes: Vec<usize> = server
        .slices
        .iter()
        .map(|slice| slice.content.endpoints.len())
        .collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn endpoints_are_packed_by_the_hundred_and_changes_of_a_slice_are_one_write() {
    let (mut server, service) = (Server::default(), web(&[]));
    assert_eq!(sync(&mut server, &service, &many(0..250, &[])), 3);
    assert_eq!(sizes(&server), [50, 100, 100]);
    // Thirty of one slice change: one write.
    let unready = [("/status/conditions/0/status", json!("False"))];
    let first = server.slices[0].content.endpoints.clone();
    let numbers: Vec<usize> = first[..30]
        .iter()
        .map(|one| one.target.name["vm-".len()..].parse().unwrap())
        .collect();
    let changed = |changes: &[(&str, Value)]| {
        let rest = (0..250).filter(|number| !numbers.contains(number));
        let mut all = many(rest, &[]);
        all.extend(many(numbers.iter().copied(), changes));
        all
    };
    assert_eq!(sync(&mut server, &service, &changed(&unready)), 1);
    // Nothing changes: nothing is written.
    assert_eq!(sync(&mut server, &service, &changed(&unready)), 0);
    // Thirty leave, thirty new ones take their places: one write.
    let rest = (0..250).filter(|number| !numbers.contains(number));
    let mut all = many(rest, &[]);
    all.extend(many(1000..1030, &[]));
    assert_eq!(sync(&mut server, &service, &all), 1);
    // Forty more fit into the last slice; eighty more do not, and have one of their own.
    all.extend(many(2000..2040, &[]));
    assert_eq!(sync(&mut server, &service, &all), 1);
    assert_eq!(sizes(&server), [90, 100, 100]);
    all.extend(many(3000..3080, &[]));
    assert_eq!(sync(&mut server, &service, &all), 1);
    assert_eq!(sizes(&server), [80, 90, 100, 100]);
    // Five more go where they fit best.
    all.extend(many(4000..4005, &[]));
    assert_eq!(sync(&mut server, &service, &all), 1);
    assert_eq!(sizes(&server), [80, 95, 100, 100]);
    assert_eq!(sync(&mut server, &service, &[]), 4);
    assert!(
        server.slices.is_empty(),
        "no slice without endpoints is made"
    );
}

#[test]
fn an_unnamed_port_is_one_whose_name_is_empty() {
    let (mut server, service) = (
        Server::default(),
        web(&[("/spec/ports/0/name", Value::Null)]),
    );
    // `sync` fails if a second look has anything to write.
    assert_eq!(sync(&mut server, &service, &many(0..5000, &[])), 50);
    assert_eq!(sync(&mut server, &service, &many(0..4999, &[])), 1);
    // A slice of an earlier version has no name.
    let without_name = |slice: &Arc<Slice>| {
        let mut object = slice.replaced(&slice.content, &service);
        object["ports"][0]["name"] = Value::Null;
        serde_json::from_value::<RawSlice>(object).unwrap().into()
    };
    server.slices = server
        .slices
        .iter()
        .map(without_name)
        .map(Arc::new)
        .collect();
    assert_eq!(sync(&mut server, &service, &many(0..4999, &[])), 0);
}

#[test]
fn slices_follow_the_labels_of_their_service_also_those_that_are_removed() {
    let (mut server, workloads) = (Server::default(), many(0..3, &[]));
    sync(&mut server, &web(&[]), &workloads);
    let other = web(&[("/metadata/labels", json!({ "tier": "x" }))]);
    assert_eq!(sync(&mut server, &other, &workloads), 1);
    let labels = &server.slices[0].content.labels;
    assert!(
        labels.contains_key("tier") && !labels.contains_key("team"),
        "{labels:?}"
    );
    let headless = web(&[("/spec/clusterIP", json!("None"))]);
    sync(&mut server, &headless, &workloads);
    assert!(
        server.slices[0]
            .content
            .labels
            .contains_key("service.kubernetes.io/headless")
    );
    assert!(sync(&mut server, &web(&[]), &workloads) > 0);
    assert!(
        !server.slices[0]
            .content
            .labels
            .contains_key("service.kubernetes.io/headless")
    );
}

#[test]
fn names_are_used_again_and_those_of_others_are_replaced() {
    let (mut server, workloads) = (Server::default(), many(0..150, &[]));
    sync(&mut server, &web(&[]), &workloads);
    let names = |server: &Server| -> BTreeSet<Box<str>> {
        server
            .slices
            .iter()
            .map(|slice| slice.name.clone())
            .collect()
    };
    let before = names(&server);
    // All have another port now: the same names, and no slice is made or removed.
    let renamed = web(&[("/spec/ports/0/name", json!("other"))]);
    assert_eq!(sync(&mut server, &renamed, &workloads), 2);
    assert_eq!(names(&server), before);
    // The Service was made anew: its slices are those of another one, and are removed last.
    let anew = web(&[("/metadata/uid", json!("uid-2"))]);
    assert_eq!(sync(&mut server, &anew, &workloads), 4);
    assert!(names(&server).is_disjoint(&before));
}

#[test]
fn slices_of_a_family_that_the_service_does_not_have_go_last() {
    let (mut server, workloads) = (Server::default(), many(0..3, &[]));
    sync(&mut server, &web(&[]), &workloads);
    let v6 = web(&[("/spec/ipFamilies", json!(["IPv6"]))]);
    assert_eq!(sync(&mut server, &v6, &workloads), 1);
    assert!(server.slices.is_empty());
}

#[test]
fn a_service_that_is_being_deleted_gets_no_new_slices() {
    let leaving = web(&[("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))]);
    let workloads = many(0..3, &[]);
    assert!(plan(&leaving, &[], &desired(&leaving, &workloads)).is_empty());
}

#[test]
fn two_slices_that_give_endpoints_to_each_other_lose_none() {
    // By their ports: odd ones answer at 8080, even ones at 9090, and then the other way round.
    let service = web(&[("/spec/ports/0/targetPort", json!("http"))]);
    let of = |odd: u16, even: u16| {
        let port = |number: u16| [("/spec/ports/0/port", json!(number))];
        let mut all = many((0..60).map(|number| number * 2 + 1), &port(odd));
        all.extend(many((0..60).map(|number| number * 2), &port(even)));
        all
    };
    let mut server = Server::default();
    sync(&mut server, &service, &of(8080, 9090));
    sync(&mut server, &service, &of(9090, 8080));
    assert_eq!(sizes(&server), [60, 60]);
}

#[test]
fn what_another_one_did_to_a_slice_is_mended() {
    let (service, workloads) = (web(&[]), many(0..3, &[]));
    let mut server = Server::default();
    sync(&mut server, &service, &workloads);
    let good = server.slices[0].clone();
    let change = |server: &mut Server, path: &str, value: Value| {
        let mut object = good.replaced(&good.content, &service);
        match object.pointer_mut(path) {
            Some(place) => *place = value,
            None => {
                let (parent, name) = path.rsplit_once('/').unwrap();
                object.pointer_mut(parent).unwrap()[name] = value;
            }
        }
        server.slices = vec![super::world::confirmed(object, "s0001", 7)];
    };
    for (path, value) in [
        ("/endpoints/0/conditions/ready", json!(false)),
        ("/endpoints/0/conditions/serving", json!(false)),
        ("/endpoints/0/targetRef/uid", json!("another")),
        (
            "/endpoints/0/hints",
            json!({ "forZones": [{ "name": "z" }] }),
        ),
        ("/ports/0/appProtocol", json!("http")),
        ("/endpoints/0/addresses/0", json!("192.0.2.200")),
        (
            "/metadata/labels",
            json!({ "kubernetes.io/service-name": "web" }),
        ),
        ("/endpoints", json!([])),
    ] {
        change(&mut server, path, value);
        assert!(sync(&mut server, &service, &workloads) >= 1, "{path}");
    }
}

/// A workload of a random test: whether it is there, ready, and at which of two ports.
type State = BTreeMap<usize, (bool, bool)>;

fn state() -> impl Strategy<Value = State> {
    let one = (any::<bool>(), prop::bool::weighted(0.2));
    prop::collection::btree_map(0_usize..330, one, 0..320)
}

fn of_state(state: &State) -> Vec<ExternalWorkload> {
    let one = |(number, (is_ready, is_other)): (&usize, &(bool, bool))| {
        let changes = [
            (
                "/status/conditions/0/status",
                json!(if *is_ready { "True" } else { "False" }),
            ),
            (
                "/spec/ports/0/port",
                json!(if *is_other { 9090 } else { 8080 }),
            ),
        ];
        many([*number], &changes).remove(0)
    };
    state.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// From any state to any other, also through one in which all ports have other names, and with
    /// endpoints that are in two slices: [`sync`] holds what must hold.
    #[test]
    fn no_endpoint_is_missing_or_twice(states in prop::collection::vec((state(), any::<bool>()), 1..4), copied in any::<prop::sample::Index>()) {
        let mut server = Server::default();
        for (state, is_renamed) in &states {
            let name = if *is_renamed { "other" } else { "http" };
            let service = web(&[
                ("/spec/ports/0/name", json!(name)),
                ("/spec/ports/0/targetPort", json!("http")),
            ]);
            let workloads = of_state(state);
            sync(&mut server, &service, &workloads);
            // Another controller has made a slice of the same endpoints at the same time.
            if !server.slices.is_empty() {
                let slice = server.slices[copied.index(server.slices.len())].clone();
                server.apply(&service, &Write::Create(slice.content.clone()));
                sync(&mut server, &service, &workloads);
            }
        }
    }
}
