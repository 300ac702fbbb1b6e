//! The cluster's objects, as a real one's look, and their server.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::Result;
use serde_json::{Value, json};
use shunt_tests::{ApiServer, Faults, Namespace};

use super::follower::next_number;
use crate::machine::frontends::Expected;

/// Number of services, with an EndpointSlice each.
pub(super) const SERVICES: u32 = 5_000;

/// Number of endpoints of a slice.
const ENDPOINTS: u32 = 50;

/// Number of endpoints in all.
pub(super) const ALL_ENDPOINTS: u32 = SERVICES * ENDPOINTS;

/// The port of all services.
const PORT: u16 = 80;

/// Expected content of the kernel's tables, which takes a minute at most.
pub(super) const ALL: Expected = Expected {
    services: SERVICES,
    backends: ENDPOINTS,
    address: cluster_ip,
    port: PORT,
    limit: Duration::from_mins(1),
};

/// Number of nodes of the endpoints.
const NODES: u32 = 500;

/// Number of zones of the nodes.
const ZONES: u32 = 3;

/// A cluster with all of its services.
pub(super) struct World {
    // The server goes first.
    pub(super) server: ApiServer,
    pub(super) namespace: Namespace,
    changes: AtomicU32,
}

impl World {
    /// A server that has all objects.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub(super) fn new() -> Result<Self> {
        let world = Self::empty()?;
        for number in 0..SERVICES {
            world.server.put(service(number));
            world.server.put(slice(number, None));
        }
        world.server.forget_known();
        Ok(world)
    }

    /// A server that has a Node alone.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub(super) fn empty() -> Result<Self> {
        let namespace = Namespace::new(next_number(), "cluster")?;
        let server = ApiServer::start(&namespace)?;
        // What it sends is an answer or a change.
        server.set_faults(Faults {
            no_bookmarks: true,
            ..Faults::default()
        });
        server.put(json!({
            "kind": "Node", "apiVersion": "v1",
            "metadata": {
                "name": node(0), "labels": { "topology.kubernetes.io/zone": zone(0) },
            },
            "status": { "addresses": [{ "type": "InternalIP", "address": "192.168.16.10" }] },
        }));
        Ok(Self {
            server,
            namespace,
            changes: AtomicU32::new(0),
        })
    }

    /// A service, and its slice with another change than any before. Each change is of another
    /// service than the one before: they are spread over all of them, since 7,919 is a prime.
    pub(super) fn change(&self) -> (u32, Value) {
        let change = self.changes.fetch_add(1, Ordering::Relaxed);
        let service = change.wrapping_mul(7_919) % SERVICES;
        (service, slice(service, Some(change)))
    }
}

/// The name of a node.
pub(super) fn node(number: u32) -> String {
    format!(
        "ip-10-0-{}-{}.eu-central-1.compute.internal",
        number / 250,
        number % 250
    )
}

fn zone(node: u32) -> String {
    format!("eu-central-1{}", ["a", "b", "c"][(node % ZONES) as usize])
}

fn name(number: u32) -> String {
    format!("service-{number}")
}

/// Returns the address of a service.
fn cluster_ip(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a60_0001 + number)
}

fn service(number: u32) -> Value {
    let (name, ip) = (name(number), cluster_ip(number));
    json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {
            "namespace": "default", "name": name, "uid": uid(0, number),
            "labels": { "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop" },
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{
                "manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "v1",
                "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:labels": {} }, "f:spec": {
                    "f:internalTrafficPolicy": {}, "f:ports": {}, "f:selector": {}, "f:type": {},
                } },
            }],
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "selector": { "app.kubernetes.io/name": name },
            "ports": [{ "name": "http", "port": PORT, "protocol": "TCP", "targetPort": "http" }],
        },
        "status": { "loadBalancer": {} },
    })
}

/// A service's slice as it is after a change of one of its endpoints, which has another address then;
/// that of the service's last change has its old one again.
fn slice(number: u32, change: Option<u32>) -> Value {
    let first = number * ENDPOINTS;
    let endpoints: Vec<_> = (0..ENDPOINTS)
        .map(|place| {
            let usual = 0x0a80_0000 + first + place;
            match change {
                // 10.250.0.0 and on: no other endpoint's.
                Some(change) if change % ENDPOINTS == place => {
                    endpoint(first + place, 0x0afa_0000 + change % 0xffff)
                }
                _ => endpoint(first + place, usual),
            }
        })
        .collect();
    let name = name(number);
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "namespace": "default", "name": format!("{name}-x7k2p"), "uid": uid(1, number),
            "generateName": format!("{name}-"), "generation": 7,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop",
                "kubernetes.io/service-name": name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "annotations": {
                "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T00:00:00Z",
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": name, "uid": uid(0, number),
                "controller": true, "blockOwnerDeletion": true,
            }],
            "managedFields": [{
                "manager": "kube-controller-manager", "operation": "Update",
                "apiVersion": "discovery.k8s.io/v1", "time": "2026-01-02T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {
                    "f:addressType": {}, "f:endpoints": {}, "f:metadata": {
                        "f:annotations": {}, "f:generateName": {}, "f:labels": {},
                        "f:ownerReferences": {},
                    }, "f:ports": {},
                },
            }],
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints,
    })
}

/// An endpoint on one of the nodes: those of a service are spread over all of them.
fn endpoint(number: u32, address: u32) -> Value {
    let on = number.wrapping_mul(31) % NODES;
    json!({
        "addresses": [IpAddr::from(Ipv4Addr::from_bits(address))],
        "conditions": { "ready": true, "serving": true, "terminating": false },
        "nodeName": node(on), "zone": zone(on),
        "targetRef": {
            "kind": "Pod", "namespace": "default", "uid": uid(2, number),
            "name": format!("service-{}-6d4cf56db6-{:05x}", number / ENDPOINTS, number),
        },
    })
}

/// An identity, as the API server makes them.
fn uid(kind: u32, number: u32) -> String {
    format!("3f0c1a{kind:02x}-7d2e-4b5a-9c1d-0000{number:08x}")
}
