//! The bounds of the bench: the number of them in each study, and those that are known to be missed.

/// A bound that is known to be missed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Miss {
    /// The study, and the label of the bound.
    pub(super) study: &'static str,
    pub(super) label: &'static str,
    /// The figure that was measured.
    pub(super) figure: f64,
    pub(super) holds: Holds,
    pub(super) reason: &'static str,
}

/// The machines on which a bound is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// All that were tried. If the bound is met by a margin, the miss has to leave the list.
    Everywhere,
    /// Some: on others, the bound is met.
    Somewhere,
}

impl Miss {
    const fn new(study: &'static str, label: &'static str, figure: f64, why: Why) -> Self {
        let Why(holds, reason) = why;
        Self {
            study,
            label,
            figure,
            holds,
            reason,
        }
    }
}

/// The machines, and the reason.
#[derive(Clone, Copy)]
struct Why(Holds, &'static str);

const FLOOR: Why = Why(
    Holds::Somewhere,
    "on Intel's processors the floor takes a third of the time that it takes on AMD's",
);
const FLOOR_AT_TC: Why = Why(
    Holds::Everywhere,
    "a reply reads two tables, and the trivial program none",
);
const LRU: Why = Why(
    Holds::Somewhere,
    "the cost of the floor's LRU hash depends on the processor's cache",
);
const SERVICES: Why = Why(
    Holds::Everywhere,
    "the tables of 10,000 services take the cache from connections (quartiles 0.90 to 1.20)",
);
const STRANGER: Why = Why(
    Holds::Somewhere,
    "2.5 ns over 3.4 ns on a quiet machine, and up to 1.6 times as much on others",
);
const VETH: Why = Why(Holds::Somewhere, "1.05 in another run");
const CONSUL: Why = Why(
    Holds::Somewhere,
    "measured beside other load; Consul's own answer takes most of it",
);
const SOCKET: Why = Why(
    Holds::Everywhere,
    "a connection takes 50 to 65 us, of which the bound is a microsecond",
);
const REQUEST: Why = Why(
    Holds::Somewhere,
    "in three rounds, with a quartile of 0.009",
);

const TENANTS: Why = Why(
    Holds::Somewhere,
    "on a machine that also compiled, before services without room were refused by their number",
);
const KEPT: Why = Why(
    Holds::Somewhere,
    "the agent keeps the addresses of Services that fit nowhere",
);

/// The label of the bound on sockets.
const BEYOND: &str = "Shunt, sockets over direct, beyond direct (again), p50";

/// The known misses, with the figures of docs/bench.md.
pub(super) const MISSES: [Miss; 19] = [
    Miss::new(
        "packets/established",
        "v4 tcp reply over the floor",
        2.42,
        FLOOR_AT_TC,
    ),
    Miss::new(
        "packets/services",
        "10,000 services over 1, 10,000 connections",
        1.07,
        SERVICES,
    ),
    Miss::new("xdp/established", "request over the floor", 2.4, FLOOR),
    Miss::new("xdp/established", "reply over the floor", 2.4, FLOOR),
    Miss::new("xdp/dsr", "request, by slots, over the floor", 2.3, FLOOR),
    Miss::new("xdp/dsr", "request, by Maglev, over the floor", 2.4, FLOOR),
    Miss::new(
        "xdp/dsr-v6",
        "request, by slots, over the floor",
        2.6,
        FLOOR,
    ),
    Miss::new(
        "xdp/dsr-v6",
        "request, by Maglev, over the floor",
        2.7,
        FLOOR,
    ),
    Miss::new(
        "xdp/dsr-flows",
        "request, by slots, over the floor",
        1.21,
        LRU,
    ),
    Miss::new(
        "xdp/dsr-flows",
        "request, by Maglev, over the floor",
        1.45,
        LRU,
    ),
    Miss::new(
        "xdp/stranger",
        "to a port that SNAT gives, over a filter's word and a table's slot",
        1.6,
        STRANGER,
    ),
    Miss::new(
        "xdp/stranger",
        "to another port, over a filter's word and a table's slot",
        1.6,
        STRANGER,
    ),
    Miss::new(
        "xdp/outside-remote/connection",
        "XDP over the bare redirect",
        1.06,
        VETH,
    ),
    Miss::new("cluster/tenants", "p99, ms", 24_815.0, TENANTS),
    Miss::new(
        "cluster/tenants",
        "memory over that without tenants",
        2.7,
        KEPT,
    ),
    Miss::new("consul/https-acl-change", "p99, ms", 58.0, CONSUL),
    Miss::new("sockets/host/request", BEYOND, 0.017, REQUEST),
    Miss::new("sockets/host/connection", BEYOND, 0.07, SOCKET),
    Miss::new("sockets/pod/connection", BEYOND, 0.06, SOCKET),
];

/// The studies with bounds, and the number of these, in a run that leaves nothing out.
pub(super) const BOUNDS: [(&str, usize); 68] = [
    ("packets/established", 2),
    ("packets/services", 2),
    ("packets/splits", 2),
    ("packets/monitor", 1),
    ("traffic/raw/new-udp-flow", 1),
    ("traffic/same-node/request", 3),
    ("traffic/same-node/connection", 3),
    ("traffic/same-node/new-flow", 2),
    ("traffic/same-node/bulk", 2),
    ("xdp/generic/snat-v4", 1),
    ("xdp/generic/dsr-v4", 1),
    ("xdp/generic/snat-v6", 1),
    ("xdp/generic/dsr-v6", 1),
    ("xdp/established", 2),
    ("xdp/flows", 2),
    ("xdp/dsr", 2),
    ("xdp/dsr-flows", 2),
    ("xdp/dsr-v6", 2),
    ("xdp/dsr-flows-v6", 2),
    ("xdp/stranger", 4),
    ("xdp/live-new-flows", 1),
    ("xdp/ports", 1),
    ("xdp/outside-remote/request", 1),
    ("xdp/outside-remote/connection", 1),
    ("sockets/pod/request", 1),
    ("sockets/pod/connection", 1),
    ("sockets/pod/sendto", 1),
    ("sockets/host/request", 1),
    ("sockets/host/connection", 1),
    ("sockets/host/datagram", 1),
    ("sockets/host/sendto", 1),
    ("sockets/connect-v4", 1),
    ("sockets/connect-v6", 1),
    ("control/cold", 1),
    ("control/change", 1),
    ("control/resync", 2),
    ("control/addresses", 1),
    ("control/memory", 2),
    ("control/maglev", 2),
    ("control/stale-sockets", 2),
    ("control/lookup", 1),
    ("control/inspection", 4),
    ("control/inspection/small", 1),
    ("control/followers/10000 of 1", 3),
    ("control/followers/1000 of 1000", 3),
    ("control/local_readers", 1),
    ("control/rules-cold-10000", 1),
    ("control/rules-change-10000", 1),
    ("cluster/change", 2),
    ("cluster/memory", 3),
    ("cluster/cold", 1),
    ("cluster/churn", 1),
    ("cluster/tenants", 3),
    ("controllers/change", 1),
    ("controllers/memory", 1),
    ("controllers/cold", 1),
    ("consul/https-change", 2),
    ("consul/https-registration", 2),
    ("consul/https-flapping", 1),
    ("consul/https-rest", 1),
    ("consul/http-change", 3),
    ("consul/http-registration", 3),
    ("consul/http-flapping", 1),
    ("consul/http-rest", 1),
    ("consul/https-acl-change", 2),
    ("consul/https-acl-deregistration", 2),
    ("consul/http-acl-change", 3),
    ("consul/http-acl-deregistration", 3),
];
