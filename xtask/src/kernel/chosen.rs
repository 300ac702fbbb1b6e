//! Tests that depend on the kernel. A filter is a part of a test's name.
//!
//! An emulated machine takes a minute or two to verify the programs, which each test has it do at least
//! once. So there are one or two of each kind, and not those that measure or count on a fast machine.

/// Results of the verifier, and the hooks, tables and helpers that kernels differ in. The model checks the
/// outcome of each kind of packet.
pub(super) const PACKETS: [&str; 9] = [
    "dsr::driver::whole_packets",
    "dsr::nodes::each_packet",
    "fragments::fragments_from_outside",
    "guard::a_free_address",
    "loading::the_verifier_has_room_left",
    "maglev::a_packet_gets",
    "service_counters::packets_and_bytes",
    "xdp::a_flow_goes_on",
    "xdp::what_ends_here",
];

/// The model test: each kind of packet through the real programs, which are loaded once for all.
pub(super) const MODEL: [&str; 1] = ["the_programs_do_what_the_model_says"];

/// Traffic through every kind of frontend, from pods, outside and the node itself; agents that take
/// over from others, from earlier versions and from kube-proxy; interfaces of each kind; drivers; what
/// an agent must be allowed; programs that report flows; cleanup.
pub(super) const END_TO_END: [&str; 37] = [
    "capabilities::three_capabilities",
    "cleanup::cleanup_removes_everything",
    "dsr::a_node_port_is_answered",
    "dual_stack::both_families_reach",
    "handover::a_table_of_another_size_takes",
    "interfaces::an_interface_has_the_programs",
    "interfaces::an_interface_with_an_ingress_qdisc",
    "interfaces::programs_that_others_remove",
    "links::clients_behind_an_interface_without_link_header_are_served",
    "monitor::connections_and_refusals_are_told",
    "redirect::packets_between",
    "removed_pins::a_resync",
    "sctp::",
    "snat::a_flow_to_a_remote_backend",
    "sockets::a_process_of_the_node_is_a_client",
    "sockets_answers::a_socket_remembers",
    "sockets_cgroup::",
    "sockets_moved::",
    "sockets_mptcp::",
    "sockets_node_port::a_node_port_is_at_every_address",
    "sockets_pods::a_backend_that_is_the_node_itself",
    "sockets_pods::a_pod_is_a_client",
    "sockets_refused::a_service_without_a_backend",
    "sockets_restart::no_process_of_the_node",
    "sockets_tcp::",
    "sockets_udp::",
    "stale_sockets::a_connected_udp",
    "stale_sockets::tcp_outlives",
    "take_over::connections_of_kube_proxys_nftables",
    "tunnels::",
    "verifier::events_are_applied_while_the_kernel_verifies_the_programs",
    "vlan::",
    "xdp::a_flow_in_transit_is_forwarded_by",
    "xdp_devices::an_uplink_that_takes_the_tags",
    "xdp_uplinks::another_program",
    "xdp_uplinks::cleanup",
    "xdp_upgrade::drivers_go_on",
];

/// An API server, an agent that follows it, and connections by its objects.
pub(super) const KUBERNETES: [&str; 1] = ["services::a_service_of_the_cluster"];

/// Floods and failures against honest clients, for some seconds.
pub(super) const SIEGE: [&str; 1] = ["honest_clients_are_served_in_a_siege"];
