//! Multipath TCP: the kernel has each subflow pass the programs as a TCP socket of its own, and
//! what the process holds is another one.

use shunt_tests::{Ability, kernel_has};

use crate::host_world::{HostWorld, service};

#[test]
fn a_multipath_socket_is_connected_to_a_backend_and_names_that() {
    if !kernel_has(&[Ability::Mptcp]) {
        return;
    }
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let backends = [host.world.backend("pod-a"), host.world.backend_v6("pod-a")];
    host.update(&[
        service("web", "10.96.0.10", &backends),
        service("none", "10.96.0.11", &[]),
    ]);
    let mut caller = host.caller();
    caller.calls(
        "open s mptcp4; connect s 10.96.0.10:80 -> ok; getpeername s -> 10.1.1.3:8080; send s hello -> ok;
         recv s -> pod-a saw; open n mptcp4; connect n 10.96.0.11:80 -> ECONNREFUSED;
         open v6 mptcp6; connect v6 [fd00:10:96::10]:80 -> ok; getpeername v6 -> [fd00:10:1:1::3]:8080",
    );
    assert_eq!(host.count("socket_connect"), 2);
    assert_eq!(host.count("socket_reject"), 1);
}
