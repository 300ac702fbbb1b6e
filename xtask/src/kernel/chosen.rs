//! Which tests say something of a kernel. A filter is a part of a test's name.

/// Of the packet tests all: the real programs, run by the kernel on single packets.
pub(super) const PACKETS: [&str; 0] = [];

/// The model test: each kind of packet through the real programs, which are loaded once for all.
pub(super) const MODEL: [&str; 1] = ["the_programs_do_what_the_model_says"];

/// Traffic through every kind of frontend, from pods, outside and the node itself; agents that are
/// killed, that take over from earlier ones and from kube-proxy; interfaces that come and go; what an
/// agent must be allowed; cleanup. Not those that measure, or that count on a fast machine.
pub(super) const END_TO_END: [&str; 21] = [
    "affinity::",
    "capabilities::",
    "cleanup::",
    "cni::",
    "dual_stack::",
    "guard::",
    "handover::",
    "interface_patterns::",
    "interfaces::",
    "links::",
    "local_pods::",
    "masquerade::",
    "path_mtu::",
    "redirect::",
    "restart::",
    "snat::",
    // And those of `sockets_…` and `stale_sockets`.
    "sockets",
    "take_over::",
    "translation::",
    "tun::",
    "upgrade::",
];

/// An API server, an agent that follows it, and connections through what it says.
pub(super) const KUBERNETES: [&str; 4] =
    ["nodes::", "rolling_update::", "server_away::", "services::"];

/// Floods and failures against honest clients, for some seconds.
pub(super) const SIEGE: [&str; 1] = ["honest_clients_are_served_in_a_siege"];
