//! The rooms of each crate, from the top down, and the libraries that have rooms of their own.

/// A crate whose borders are held.
pub(crate) struct Crate {
    /// Its source folder, from the workspace.
    pub(crate) folder: &'static str,
    /// Its rooms: none imports from one that stands before it.
    pub(crate) rooms: &'static [Room],
    /// Files of plain values below all rooms; they import from each other alone.
    pub(crate) values: &'static [&'static str],
}

/// A folder or a file right below a source folder.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    /// The rooms that it may import from, besides itself.
    pub(crate) below: &'static [&'static str],
}

const fn room(name: &'static str, below: &'static [&'static str]) -> Room {
    Room { name, below }
}

pub(crate) const CRATES: &[Crate] = &[
    Crate {
        folder: "agent/datapath/src",
        rooms: &[
            room(
                "datapath",
                &[
                    "attach",
                    "publish",
                    "conntrack",
                    "sweep",
                    "handover",
                    "object",
                    "maps",
                    "routes",
                    "netlink",
                    "error",
                    "pins",
                    "sys",
                ],
            ),
            // These four do not know each other: `datapath` joins them.
            room("attach", &["object", "netlink", "error", "pins", "sys"]),
            room("publish", &["maps", "error", "sys"]),
            room("conntrack", &["maps", "error", "sys"]),
            room("sweep", &["maps", "error", "sys"]),
            room("handover", &["maps", "error", "pins", "sys"]),
            room("object", &["maps", "error", "pins", "sys"]),
            room("maps", &["routes", "error", "sys"]),
            room("routes", &["netlink"]),
            room("netlink", &[]),
            room("error", &["pins", "sys"]),
            room("pins", &["sys"]),
            room("sys", &[]),
        ],
        values: &[],
    },
    Crate {
        folder: "agent/src",
        rooms: &[room("cli", &["host"]), room("host", &[])],
        values: &[],
    },
    Crate {
        folder: "agent/runtime/src",
        rooms: &[
            room(
                "event_loop",
                &[
                    "status",
                    "terminate",
                    "held_removal",
                    "queue",
                    "request",
                    "figures",
                    "frontends",
                    "agent",
                    "reports",
                    "lookup",
                    "meters",
                    "outcome",
                    "acknowledgements",
                    "aside",
                    "disputes",
                    "held_events",
                    "steering",
                    "table_maker",
                ],
            ),
            room(
                "inspector",
                &[
                    "monitor",
                    "queue",
                    "dump",
                    "request",
                    "figures",
                    "frontends",
                    "reports",
                    "lookup",
                    "outcome",
                    "conntrack",
                    "consul_status",
                    "service_counts",
                ],
            ),
            room(
                "monitor",
                &["queue", "request", "reports", "flow_meters", "priority"],
            ),
            room(
                "status",
                &["held_removal", "frontends", "agent", "steering"],
            ),
            room("terminate", &["queue", "request"]),
            room("held_removal", &["request", "reports", "outcome"]),
            room("queue", &["request", "reports", "outcome"]),
            room("dump", &["frontends"]),
            room(
                "request",
                &[
                    "figures",
                    "frontends",
                    "reports",
                    "lookup",
                    "outcome",
                    "aside",
                ],
            ),
            room("figures", &["agent", "health"]),
            room("frontends", &["agent", "service_counts"]),
            room(
                "agent",
                &[
                    "compare_services",
                    "lookup",
                    "outcome",
                    "room",
                    "service_changes",
                ],
            ),
            room("reports", &["meters", "health"]),
            room("compare_services", &["service_changes"]),
            room("lookup", &["priority"]),
            room("meters", &["flow_meters", "rest_client"]),
            room("outcome", &["steering"]),
            room("acknowledgements", &[]),
            room("aside", &[]),
            room("conntrack", &[]),
            room("consul_status", &[]),
            room("disputes", &[]),
            room("flow_meters", &[]),
            room("health", &[]),
            room("held_events", &[]),
            room("priority", &[]),
            room("rest_client", &[]),
            room("room", &[]),
            room("service_changes", &[]),
            room("service_counts", &[]),
            room("steering", &[]),
            room("table_maker", &[]),
        ],
        values: &[
            "circumstances",
            "cluster_state",
            "consul_state",
            "contact",
            "error",
            "go_duration",
            "health_checks",
            "here",
            "history",
            "host_complaints",
            "ip_family",
            "limit",
            "listeners",
            "local_monitor",
            "origin",
            "pairs",
            "removal",
            "table_flags",
            "waits",
        ],
    },
    Crate {
        folder: "agent/source/src",
        rooms: &[
            room("file", &["event_source", "reader"]),
            room("socket", &["event_source"]),
            room("event_source", &[]),
            room("reader", &[]),
            room("retries", &[]),
        ],
        values: &[],
    },
    Crate {
        folder: "agent/kubernetes/src",
        rooms: &[
            room(
                "source",
                &["engine", "notices", "options", "routes", "watch", "objects"],
            ),
            room(
                "engine",
                &[
                    "failures",
                    "machines",
                    "pending",
                    "links",
                    "notices",
                    "options",
                    "pods",
                    "report",
                    "routes",
                    "store",
                    "node_ports",
                    "translate",
                    "watch",
                    "objects",
                ],
            ),
            room(
                "controllers",
                &["links", "notices", "routes", "watch", "objects"],
            ),
            room("failures", &["store"]),
            room("machines", &["pods", "watch", "objects"]),
            room("pending", &["store"]),
            room("links", &["watch", "objects"]),
            room("notices", &["translate"]),
            room("options", &["node_ports", "translate", "watch"]),
            room("pods", &["watch", "objects"]),
            room("report", &["translate"]),
            room("routes", &["translate", "watch", "objects"]),
            room("store", &["watch", "objects"]),
            room("node_ports", &["objects"]),
            room("translate", &["objects"]),
            room("watch", &["objects"]),
            room("objects", &[]),
        ],
        values: &[],
    },
    Crate {
        folder: "agent/catalog/src",
        rooms: &[
            room("consul", &["instances"]),
            room("local", &["instances"]),
            room("instances", &[]),
        ],
        values: &[],
    },
    Crate {
        folder: "agent/http/src",
        rooms: &[
            room("keep", &["accept", "listen"]),
            room("accept", &["answer", "peer", "places", "stalled"]),
            room("places", &["peer"]),
            room("peer", &[]),
            room("stalled", &[]),
            room("address", &["socket_file"]),
            room("answer", &[]),
            room("listen", &[]),
            room("socket_file", &[]),
        ],
        values: &[],
    },
    Crate {
        folder: "agent/serve/src",
        rooms: &[
            room("controller", &["metrics"]),
            room("http_server", &["health", "metrics"]),
            room("linkerd", &["grpc"]),
            room("grpc", &[]),
            room("health", &[]),
            room("local_api", &[]),
            room("metrics", &[]),
            room("ui", &[]),
        ],
        values: &[],
    },
    Crate {
        folder: "agent/api/src",
        rooms: &[
            room("view", &["message", "proto"]),
            room("message", &["proto"]),
            room("proto", &[]),
        ],
        values: &[],
    },
    Crate {
        folder: "agent/files/src",
        rooms: &[
            room("lock", &["holder", "folder"]),
            room("replace", &["folder"]),
            room("holder", &[]),
            room("folder", &[]),
        ],
        values: &[],
    },
    Crate {
        folder: "agent/trace/src",
        rooms: &[
            // The parts of a dump's tables that it has to read are named there.
            room("anonymous", &["trace", "dump"]),
            room("trace", &["dump"]),
            room("dump", &[]),
        ],
        values: &[],
    },
    Crate {
        folder: "agent/model/src",
        rooms: &[
            room("json", &["validate", "unchecked"]),
            room("validate", &["unchecked"]),
            // Asks what `render` knows.
            room("lookup", &["render"]),
            room("render", &[]),
            room("unchecked", &[]),
        ],
        values: &[
            "cluster_nodes",
            "endpoint",
            "error",
            "escaped",
            "event",
            "forwarding",
            "interface_pattern",
            "kind",
            "maglev",
            "masquerade",
            "named",
            "overrides",
            "path",
            "policy",
            "protocol",
            "selection",
            "seniority",
            "service",
            "service_id",
            "split",
            "status_range",
            "topology",
            "unusable",
            "workload",
        ],
    },
    Crate {
        folder: "ebpf/src",
        rooms: &[
            room("hooks", &["pipeline", "socket", "packet", "ctx"]),
            room(
                "pipeline",
                &["lb", "nat", "forward", "rewrite", "maps", "packet", "ctx"],
            ),
            // What processes ask for, where `pipeline` has packets.
            room("socket", &["lb", "maps", "ctx"]),
            // These three do not know each other: what one finds, `pipeline` hands to the next.
            room("lb", &["maps", "packet", "ctx"]),
            room("nat", &["maps", "packet", "ctx"]),
            room("forward", &["rewrite", "maps", "packet", "ctx"]),
            room("rewrite", &["packet", "ctx"]),
            room("maps", &["packet", "ctx"]),
            room("packet", &["ctx"]),
            room("ctx", &[]),
        ],
        values: &[],
    },
];

/// Libraries, and the folders that alone may name them.
pub(crate) const NAMED: &[(&str, &[&str])] = &[
    ("aya", &["agent/datapath"]),
    ("aya_log", &["agent/datapath"]),
    ("libc", &["agent/datapath"]),
    ("clap", &["agent/src/cli"]),
    ("clap_complete", &["agent/src/cli"]),
    ("clap_mangen", &["agent/src/cli"]),
    ("sd_notify", &["agent/src/cli"]),
    ("ratatui", &["agent/src/cli/top"]),
    // Sources and serving know the runtime, never the datapath.
    ("shunt_datapath", &["agent/src/cli", "agent/runtime"]),
    // A source is joined with the agent in one place, and knows no other.
    ("shunt_kubernetes", &["agent/src/cli", "agent/serve"]),
    ("shunt_http", &["agent/src/cli", "agent/serve"]),
    ("shunt_serve", &["agent/src/cli"]),
    (
        "shunt_catalog",
        &["agent/src/cli", "agent/serve/src/local_api"],
    ),
    (
        "toml",
        &[
            "agent/catalog/src/instances/configuration",
            "agent/src/cli/config",
        ],
    ),
    ("tokio_rustls", &["agent/catalog/src/consul/http"]),
    ("tonic", &["agent/api", "agent/serve", "agent/src/cli"]),
    (
        "tonic_health",
        &["agent/serve/src/grpc", "agent/serve/src/linkerd"],
    ),
    (
        "tonic_reflection",
        &["agent/serve/src/grpc", "agent/serve/src/linkerd"],
    ),
    ("linkerd2_proxy_api", &["agent/serve/src/linkerd"]),
    (
        "form_urlencoded",
        &["agent/serve/src/local_api", "agent/serve/src/ui"],
    ),
    (
        "percent_encoding",
        &["agent/serve/src/local_api", "agent/catalog/src/consul"],
    ),
    // The same hash of all agents and versions.
    (
        "fnv",
        &[
            "agent/catalog/src/consul",
            "agent/kubernetes/src/notices",
            "agent/catalog/src/local",
        ],
    ),
    ("kube", &["agent/kubernetes"]),
    ("k8s_openapi", &["agent/kubernetes"]),
];
