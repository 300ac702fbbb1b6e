//! The cgroup of the socket hooks is removed, and made again at the same path, as when the container of a kubelet restarts.

use std::time::Duration;

use shunt_tests::{Transport, wait_until};

use crate::host_world::{HostWorld, ask};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn the_programs_follow_a_cgroup_that_is_made_again() {
    let Some(mut host) = HostWorld::with_flags("host", &["--conntrack-scan-interval", "1s"]) else {
        return;
    };
    let target = host.serve(Transport::Tcp).cluster_ip().address();
    host.ask("tcp", target).unwrap();
    let status = |host: &HostWorld| host.world.shunt(&["status", "-o", "json"]).json();
    let hooks = status(&host)["socket_lb"]["hooks"].clone();

    host.cgroup.remove().unwrap();
    wait_until("the status reports it", SOON, || {
        let problem = status(&host)["socket_lb"]["problem"].to_string();
        problem.contains("was removed").then_some(())
    })
    .unwrap();
    let shown = host.world.shunt(&["status"]).clean();
    assert!(shown.contains("was removed"), "{shown}");

    host.cgroup.make_again().unwrap();
    wait_until("the new cgroup has the programs", SOON, || {
        (status(&host)["socket_lb"]["hooks"] == hooks).then_some(())
    })
    .unwrap();
    host.ask("tcp", target).unwrap();
    let now = status(&host);
    assert!(now["socket_lb"]["problem"].is_null(), "{now}");
    let sentence = "was removed, and the programs for sockets with it";
    assert!(now["host"].to_string().contains(sentence), "{now}");
    let log = host.world.agent.log();
    assert!(log.contains(sentence), "{log}");

    // The links of the new cgroup are pinned in place of the others.
    let HostWorld { world, cgroup } = host;
    let unattended = world.killed();
    ask(&cgroup, unattended.sandbox.node(), "tcp", target).unwrap();
}

#[test]
fn the_programs_follow_a_cgroup_that_is_made_again_between_two_scans() {
    let Some(mut host) = HostWorld::with_flags("host", &["--conntrack-scan-interval", "2s"]) else {
        return;
    };
    let target = host.serve(Transport::Tcp).cluster_ip().address();
    host.ask("tcp", target).unwrap();
    host.cgroup.remove().unwrap();
    host.cgroup.make_again().unwrap();
    wait_until("the new cgroup has the programs", SOON, || {
        host.ask("tcp", target).ok()
    })
    .unwrap();
}
