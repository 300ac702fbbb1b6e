//! Skips that are accepted under CI: tests of an ability that not every kernel has. A probe decides whether the
//! machine's kernel has it, so no list depends on a machine.

/// The reasons, as `Ability::lack` of `tests/src/ability.rs` words them, each with the tests that need the ability.
const ACCEPTED: [(&str, &[&str]); 24] = [
    (
        "the kernel has no bond devices",
        &["end_to_end xdp_devices::a_bond_has_the_program_in_the_drivers_of_its_ports"],
    ),
    (
        "the kernel has no VLAN filtering bridge devices",
        &["end_to_end vlan::clients_behind_a_bridge_of_a_vlan_are_served"],
    ),
    (
        "the kernel has no geneve devices",
        &["end_to_end tunnels::clients_behind_geneve_are_served"],
    ),
    (
        "the kernel has no gre devices",
        &[
            "end_to_end tunnels::clients_behind_gre_are_served",
            "end_to_end tunnels::gre_whose_packets_begin_with_its_own_header_is_refused_with_the_reason",
        ],
    ),
    (
        "the kernel has no gretap devices",
        &["end_to_end tunnels::clients_behind_gretap_are_served"],
    ),
    ("the kernel has no ip6gre devices", &IP6GRE),
    (
        "the kernel has no ip6tnl devices",
        &["end_to_end tunnels::clients_behind_ip6tnl_are_served"],
    ),
    (
        "the kernel has no ipip devices",
        &["end_to_end tunnels::clients_behind_ipip_are_served"],
    ),
    (
        "the kernel has no macvlan devices",
        &["end_to_end xdp_devices::clients_behind_a_macvlan_device_are_served_without_a_driver"],
    ),
    (
        "the kernel has no sit devices",
        &["end_to_end tunnels::clients_behind_sit_are_served"],
    ),
    (
        "the kernel has no vlan devices",
        &[
            "end_to_end flowtables::a_flowtable_below_a_vlan_is_named",
            "end_to_end flowtables::replies_that_a_flowtable_forwards_by_a_vlan_have_the_frontends_address",
            "end_to_end vlan::a_pod_has_replies_of_a_backend_behind_a_vlan_device",
            "end_to_end vlan::clients_behind_a_vlan_device_are_served_by_tc",
            "end_to_end xdp_devices::an_uplink_that_takes_the_tags_of_a_vlan_off_leaves_all_to_tc",
            "end_to_end xdp_devices::clients_behind_a_vlan_device_are_served_without_a_driver",
        ],
    ),
    (
        "the kernel has no vti devices",
        &["end_to_end tunnels::clients_behind_vti_are_served"],
    ),
    (
        "the kernel has no vxlan devices",
        &["end_to_end tunnels::clients_behind_vxlan_are_served"],
    ),
    (
        "the kernel has no wireguard devices",
        &["end_to_end tunnels::clients_behind_wireguard_are_served"],
    ),
    (
        "the kernel has no xfrm devices",
        &["end_to_end tunnels::clients_behind_an_xfrm_interface_are_served"],
    ),
    (
        "the kernel has no flowtables",
        &[
            "end_to_end flowtables::a_flowtable_below_a_bridge_is_named",
            "end_to_end flowtables::a_flowtable_below_a_vlan_is_named",
            "end_to_end flowtables::replies_that_a_flowtable_forwards_by_a_bridge_have_the_frontends_address",
            "end_to_end flowtables::replies_that_a_flowtable_forwards_by_a_vlan_have_the_frontends_address",
            "end_to_end flowtables::replies_that_a_flowtable_forwards_have_the_frontends_address",
        ],
    ),
    (
        "the kernel has no IPsec tunnels",
        &[
            "end_to_end tunnels::clients_behind_an_xfrm_interface_are_served",
            "end_to_end tunnels::clients_behind_vti_are_served",
        ],
    ),
    (
        "the kernel has no IPv6",
        &[
            "end_to_end tunnels::clients_behind_ip6gre_are_served",
            "end_to_end tunnels::clients_behind_ip6tnl_are_served",
            "end_to_end tunnels::ip6gre_whose_packets_begin_with_its_own_header_is_refused_with_the_reason",
        ],
    ),
    (
        "the kernel has no MPTCP",
        &["end_to_end sockets_mptcp::a_multipath_socket_is_connected_to_a_backend_and_names_that"],
    ),
    (
        "the kernel has no SCTP",
        &["end_to_end sctp::much_arrives_whole_over_one_association"],
    ),
    (
        "the kernel lists no TCP sockets with their storage",
        &STALE_SOCKETS,
    ),
    (
        "the kernel lists no TCP sockets with their storage",
        &[
            "end_to_end stale_unlisted::an_agent_that_cannot_list_udp_sockets_says_so_and_ends_those_of_tcp",
        ],
    ),
    (
        "the kernel lists no UDP sockets with their storage",
        &STALE_SOCKETS,
    ),
    (
        "the kernel runs no XDP programs behind long metadata",
        &[
            "packets dsr::driver::without_room_for_an_envelope_a_packet_is_left_to_tc_v4",
            "packets dsr::driver::without_room_for_an_envelope_a_packet_is_left_to_tc_v6",
        ],
    ),
];

/// The tests of tunnels in IPv6 with GRE.
const IP6GRE: [&str; 2] = [
    "end_to_end tunnels::clients_behind_ip6gre_are_served",
    "end_to_end tunnels::ip6gre_whose_packets_begin_with_its_own_header_is_refused_with_the_reason",
];

/// The tests of sockets that the agent finds by the kernel's lists.
const STALE_SOCKETS: [&str; 16] = [
    "end_to_end sockets_moved::a_connected_udp_socket_goes_on_at_another_backend",
    "end_to_end sockets_moved::a_socket_that_is_older_than_its_service_is_destroyed_by_an_agent_that_may_not_touch_it",
    "end_to_end sockets_moved::a_socket_that_is_older_than_its_service_reaches_a_backend",
    "end_to_end sockets_moved::a_socket_that_the_kernel_does_not_connect_is_destroyed",
    "end_to_end sockets_moved::an_agent_moves_at_its_start_what_became_stale_without_one",
    "end_to_end sockets_moved::sockets_of_many_processes_go_on",
    "end_to_end stale_many::a_sweep_that_a_kill_has_cut_off_is_ended_by_the_next_agent",
    "end_to_end stale_many::of_many_sockets_those_at_a_removed_backend_are_destroyed_soon",
    "end_to_end stale_sockets::a_connected_udp_socket_leaves_a_removed_backend",
    "end_to_end stale_sockets::a_socket_at_a_backend_that_stays_is_left_alone",
    "end_to_end stale_sockets::a_socket_of_a_pod_is_left_to_the_programs_on_its_interface",
    "end_to_end stale_sockets::a_socket_that_could_not_be_connected_elsewhere_leaves_a_removed_backend_too",
    "end_to_end stale_sockets::an_agent_destroys_at_its_start_what_became_stale_without_one",
    "end_to_end stale_sockets::sockets_that_connect_while_a_backend_leaves_are_off_it_too",
    "end_to_end stale_sockets::tcp_is_terminated_when_its_endpoint_is_gone_and_not_before",
    "end_to_end stale_sockets::tcp_outlives_its_backend_unless_it_is_to_be_terminated",
];

/// The reasons that hold for Debian's kernels, by their version; a version without a row lacks nothing.
const LACKS: [(&str, &[&str]); 1] = [(
    "6.1",
    &["the kernel runs no XDP programs behind long metadata"],
)];

/// Returns each accepted pair of a reason and a test, as `binary module::test`.
pub(crate) fn accepted() -> impl Iterator<Item = (&'static str, &'static str)> {
    ACCEPTED
        .iter()
        .flat_map(|(reason, tests)| tests.iter().map(move |test| (*reason, *test)))
}

/// Returns whether a test, by its name without the binary, may be skipped for this reason on Debian's kernel of this
/// version.
pub(crate) fn is_accepted_on(version: &str, test: &str, reason: &str) -> bool {
    let lacks = LACKS.iter().find(|(known, _)| *known == version);
    let is_lacking = lacks.is_some_and(|(_, reasons)| reasons.contains(&reason));
    let is_test = |name: &str| name.split_once(' ').is_some_and(|(_, name)| name == test);
    is_lacking && accepted().any(|(known, name)| known == reason && is_test(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_may_lack_only_what_is_written_for_it() {
        let test = "dsr::driver::without_room_for_an_envelope_a_packet_is_left_to_tc_v4";
        let reason = "the kernel runs no XDP programs behind long metadata";
        assert!(is_accepted_on("6.1", test, reason));
        assert!(!is_accepted_on("6.12", test, reason));
        assert!(!is_accepted_on("6.1", "sctp::other", reason));
        assert!(!is_accepted_on("6.1", test, "needs nft"));
    }

    #[test]
    fn the_reasons_of_kernels_are_those_of_tests() {
        for (version, reasons) in LACKS {
            for reason in reasons {
                let is_known = accepted().any(|(known, _)| known == *reason);
                assert!(is_known, "{version}: {reason}");
            }
        }
    }
}
