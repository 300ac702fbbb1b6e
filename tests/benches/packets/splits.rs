//! Packets to a frontend whose connections are shared out among two services, or that refuses the least share there is,
//! beside one that has the same two endpoints of its own.

use std::cell::RefCell;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use shunt_datapath::{Families, TableSizes};

use super::{
    feeder::Feeder,
    node::{BACKEND_PORT, Node, SERVICE_PORT, Size, nth, peer},
    opened::{self, Programs as _},
    other::first_packet,
    traffic::{Family, Peer, Traffic, Transport},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
};

const NAME: &str = "packets/splits";

/// Number of flows opened in a run.
const OPENED: u32 = 100_000;

/// Limit of a packet's cost over that without a split.
const LIMIT: f64 = 1.03;

/// Runs the study.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not translate.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let worlds = [
        ("plain", plain()),
        ("split", split([("services-0", 100), ("nobody-0", 0)])),
        (
            "refusing",
            split([("services-0", u32::MAX - 1), ("gone", 1)]),
        ),
    ];
    let worlds = worlds.map(|(name, events)| {
        let mut node = Node::new(Size {
            services: 1,
            conntrack: TableSizes::default().conntrack,
            families: Families::default(),
        })?;
        for event in events {
            node.tell(&event)?;
        }
        anyhow::Ok((name, RefCell::new(node)))
    });
    let worlds = worlds
        .into_iter()
        .collect::<Result<Vec<_>>>()
        .context("a node with a split and one without")?;

    let request = Traffic::new(Family::V4, Transport::TcpAck, Peer::Services);
    let first = Traffic::new(Family::V4, Transport::TcpSyn, Peer::Services).spread(OPENED, 1);
    let mut study = Study::new(NAME, "ns a packet over the empty program", Better::Lower)
        .rounds(bench.rounds(15, 9));
    for (name, node) in &worlds {
        study = study.subject(format!("{name}, first packet"), move || {
            let cost = first_packet(&mut feeder.borrow_mut(), &mut node.borrow_mut(), &first)?;
            Ok(sample([("", cost)]))
        });
    }
    for (name, node) in &worlds {
        study = study.subject(format!("{name}, request"), move || {
            let mut node = node.borrow_mut();
            opened::open(&mut feeder.borrow_mut(), &mut *node, &request)?;
            let ingress = node.ingress()?;
            let cost = opened::cost(feeder, &request, &ingress)?;
            // It is one of the first packets of the next round.
            node.forget()?;
            Ok(cost)
        });
    }
    for name in ["split", "refusing"] {
        for what in ["first packet", "request"] {
            study = study.bound(Bound::new(
                format!("{name} over plain, {what}"),
                Limit::AtMost(LIMIT),
                move |round| {
                    let cost = round.get(&format!("{name}, {what}"), "")?;
                    Some(cost / round.get(&format!("plain, {what}"), "")?)
                },
            ));
        }
    }
    bench.study(study)
}

/// The service with two endpoints, the first of which takes all connections.
fn plain() -> Vec<Value> {
    let backends = [backend(0, 1), backend(1, 0)];
    vec![service(Peer::Services, &backends, &Value::Null)]
}

/// The service with the first of them, and another with the second. Services have these weights; the share of one that
/// is gone is refused.
fn split(weights: [(&str, u32); 2]) -> Vec<Value> {
    let named = |name: &str, weight: u32| {
        json!({
            "service": {"namespace": "bench", "name": name},
            "port": SERVICE_PORT,
            "weight": weight,
        })
    };
    let split = json!({
        "mode": "strict",
        "backends": weights.map(|(name, weight)| named(name, weight)),
    });
    vec![
        service(Peer::Nobody, &[backend(1, 1)], &Value::Null),
        service(Peer::Services, &[backend(0, 1)], &split),
    ]
}

fn backend(number: u32, weight: u32) -> Value {
    let ip = nth(peer(Family::V4, Peer::Backends), number);
    json!({"ip": ip, "port": BACKEND_PORT, "local": true, "weight": weight})
}

/// The event by which a service of the node becomes this one.
fn service(of: Peer, backends: &[Value], split: &Value) -> Value {
    let mut service = json!({
        "id": {"namespace": "bench", "name": format!("{of:?}-0").to_lowercase()},
        "cluster_ips": [peer(Family::V4, of)],
        "ports": {"tcp": {"protocol": "TCP", "port": SERVICE_PORT}},
        "backends": {"tcp": backends},
    });
    if !split.is_null() {
        service["splits"] = json!({"tcp": split});
    }
    json!({"event": "UpdateService", "service": service})
}
