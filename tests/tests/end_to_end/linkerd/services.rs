//! Services for tests of the API.

use serde_json::{Value, json};
use shunt_tests::SocketPath;

use crate::world::{World, resync_with};

/// The flag that has the API served.
pub(super) const FLAGS: [&str; 1] = ["--linkerd-api"];

/// Socket of the API, which is served as long as this is there.
pub(super) struct Served(SocketPath);

impl Served {
    /// A world whose agent serves the API, with where that is, after these events.
    pub(super) fn world(events: &[String]) -> Option<((World, Self), String)> {
        Self::world_with(&[], events)
    }

    /// The same with further flags of the agent.
    pub(super) fn world_with(flags: &[&str], events: &[String]) -> Option<((World, Self), String)> {
        let socket = SocketPath::new();
        let place = format!("unix:{}", socket.path().display());
        let mut world = World::with_flags(&[&[FLAGS[0], &place], flags].concat())?;
        for event in events {
            world.apply(event);
        }
        Some(((world, Self(socket)), place))
    }

    /// The socket.
    pub(super) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

/// An endpoint on node 1, which is this one, or node 2.
pub(super) fn endpoint(ip: &str, port: u16) -> Value {
    let local = ip.starts_with("10.1.1.");
    let (node, zone) = if local {
        ("node-1", "a")
    } else {
        ("node-2", "b")
    };
    json!({ "ip": ip, "port": port, "local": local, "node": node, "zone": zone })
}

/// With further fields.
pub(super) fn with(mut value: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else {
        panic!("{fields} is no object");
    };
    value.as_object_mut().unwrap().extend(fields);
    value
}

/// A service with a single port.
pub(super) fn service(name: &str, ips: &[&str], port: u16, endpoints: &[Value]) -> Value {
    json!({
        "id": { "namespace": "default", "name": name },
        "cluster_ips": ips,
        "ports": { "main": { "protocol": "TCP", "port": port } },
        "backends": { "main": endpoints },
    })
}

/// A pod.
pub(super) fn pod(name: &str, ip: &str) -> Value {
    json!({ "id": { "kind": "Pod", "namespace": "default", "name": name }, "ips": [ip] })
}

/// The endpoints of `web`.
pub(super) fn web() -> [Value; 2] {
    [endpoint("10.1.1.3", 8080), endpoint("10.1.2.3", 8080)]
}

/// All that the conformance test asks about.
pub(super) fn events() -> Vec<String> {
    let [first, second] = web();
    let both = [first.clone(), second.clone()];
    let not_ready = with(endpoint("10.1.2.4", 5432), json!({ "state": "NotReady" }));
    let leaving = with(
        first.clone(),
        json!({ "state": "Terminating", "serving": true }),
    );
    let split =
        |mode: &str, backends: Value| json!({ "main": { "mode": mode, "backends": backends } });
    let to = |name: &str, weight: u32| {
        let id = json!({ "namespace": "default", "name": name });
        json!({ "service": id, "port": 80, "weight": weight })
    };
    let services = [
        with(
            service("web", &["10.96.0.10"], 80, &both),
            json!({
                "external_ips": ["203.0.113.7"],
                "ports": { "main": { "protocol": "TCP", "port": 80, "node_port": 30080 } },
            }),
        ),
        service("empty", &["10.96.0.11"], 80, &[]),
        with(
            service("local", &["10.96.0.12"], 80, &both),
            json!({ "internal_traffic_policy": "Local", "opaque_ports": ["79-80"] }),
        ),
        with(
            service("dns", &["10.96.0.13"], 53, &both),
            json!({ "ports": { "main": { "protocol": "UDP", "port": 53 } } }),
        ),
        service("leaving", &["10.96.0.14"], 80, &[leaving]),
        with(
            service("db", &[], 5432, &[endpoint("10.1.1.4", 5432), not_ready]),
            json!({
                "opaque_ports": [],
                "hostnames": { "10.1.1.4": "db-0", "10.1.2.4": "db-1", "10.1.1.3": "gone" },
            }),
        ),
        with(
            service("apex", &["10.96.0.16"], 80, &[first]),
            json!({
                "splits": split("available", json!([to("apex", 90), to("web", 10)])),
                "profile": {
                    "name": "apex.default.svc.cluster.local",
                    "routes": [
                        { "name": "reads", "condition": { "method": "GET" }, "isRetryable": true },
                        { "name": "of nothing", "condition": {} },
                    ],
                    "retryBudget": {
                        "retryRatio": 0.1, "minRetriesPerSecond": 7, "ttl": "30s",
                    },
                },
            }),
        ),
        with(
            service("tiers", &["10.96.0.17"], 80, &[]),
            json!({ "splits": split("first", json!([to("empty", 1), to("web", 1), to("apex", 1)])) }),
        ),
    ];
    let workloads = json!({
        "event": "UpdateWorkloads",
        "workloads": [
            with(pod("web-1", "10.1.1.3"), json!({
                "owner": { "kind": "ReplicaSet", "name": "web" },
                "host_ports": [
                    { "ip": "192.168.16.10", "port": 9100, "protocol": "TCP" },
                    { "ip": "192.168.16.10", "port": 53, "protocol": "UDP" },
                ],
            })),
            pod("web-2", "10.1.2.3"),
            with(pod("db-0", "10.1.1.4"), json!({ "opaque_ports": ["5432"] })),
            with(pod("db-1", "10.1.2.4"), json!({ "opaque_ports": ["5432"] })),
            with(pod("late", "10.1.1.9"), json!({ "phase": "Pending" })),
            {
                "id": { "kind": "ExternalWorkload", "namespace": "default", "name": "vm" },
                "ips": ["172.16.0.1"],
                "ports": [{ "port": 80, "protocol": "TCP" }],
            },
        ],
    });
    vec![resync_with(&services), workloads.to_string()]
}
