//! Processes of the node as clients, translated where they open a socket.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use shunt_tests::{Cgroup, PinDir, Sandbox, Transport, has_root, run, wait_until};

use crate::{
    host_world::{HostWorld, ask, mapped},
    pinned,
    world::{World, binary, try_start_agent_with},
};

/// The hooks of a cgroup, and those of the interfaces that [`World`] has.
const LINKS: usize = 8 + 10;

const SOON: Duration = Duration::from_secs(5);

/// The cgroup's links, by name, with the kernel's ids of link and program.
fn cgroup_links(pins: &PinDir) -> Vec<(String, (u32, u32))> {
    let links = pinned::links(pins).into_iter();
    links
        .filter(|(name, _)| name.starts_with("cgroup-"))
        .collect()
}

/// An address as an IPv4 socket has it, if it can.
fn unmapped(said: &Value) -> Option<SocketAddr> {
    let address: SocketAddr = said.as_str()?.parse().unwrap();
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[test]
fn a_process_of_the_node_is_a_client_and_sees_the_frontend_at_the_other_end() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    for (transport, ways) in [
        (Transport::Tcp, &["tcp"][..]),
        (Transport::Udp, &["udp", "sendto"]),
    ] {
        let service = host.serve(transport);
        let v4 = service.cluster_ip().address();
        for target in [v4, service.cluster_ip_v6().address(), mapped(v4)] {
            for way in ways {
                for _ in 0..10 {
                    let said = host.ask(way, target).unwrap();
                    assert_eq!(said["from"], json!(target), "{way} {target}: {said}");
                    assert_eq!(
                        unmapped(&said["peer"]),
                        unmapped(&said["client"]),
                        "the backend sees the process itself: {said}"
                    );
                }
            }
        }
    }
    assert!(host.count("socket_connect") > 0);
    assert!(host.count("socket_datagram") > 0);
    assert_eq!(host.count("connection"), 0, "no packet is translated");
}

#[test]
fn a_process_of_the_node_is_no_client_where_that_is_off() {
    let Some(mut host) = HostWorld::new("off") else {
        return;
    };
    let service = host.serve(Transport::Tcp);
    host.ask("tcp", service.cluster_ip().address()).unwrap_err();
    assert_eq!(cgroup_links(&host.world.pins), []);
    let status = host.world.shunt(&["status", "-o", "json"]).json();
    let expected = json!({
        "mode": "off", "cgroup": null, "root": false, "hooks": [], "problem": null,
    });
    assert_eq!(status["socket_lb"], expected);
}

#[test]
fn a_pod_is_translated_at_its_socket_only_with_all() {
    for mode in ["host", "all"] {
        let Some(mut host) = HostWorld::new(mode) else {
            return;
        };
        let service = host.serve(Transport::Tcp);
        let target = service.cluster_ip().address();
        let pod = host.world.client_pod();
        let said = ask(&host.cgroup, pod, "tcp", target).unwrap();
        assert_eq!(said["from"], json!(target), "{said}");
        let counted = (host.count("socket_connect"), host.count("connection"));
        let expected = if mode == "all" { (1, 0) } else { (0, 1) };
        assert_eq!(
            counted, expected,
            "at the socket and by packets, with {mode}"
        );
    }
}

#[test]
fn a_process_outside_the_cgroup_is_no_client() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let service = host.serve(Transport::Tcp);
    let other = Cgroup::new().unwrap();
    let node = host.world.sandbox.node();
    ask(&other, node, "tcp", service.cluster_ip().address()).unwrap_err();
}

#[test]
fn the_next_agent_replaces_the_programs_of_the_cgroup() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let service = host.serve(Transport::Udp);
    let target = service.cluster_ip().address();
    let before = cgroup_links(&host.world.pins);
    assert_eq!(before.len(), 8, "{before:?}");
    let cgroup = host.cgroup.path().to_str().unwrap().to_owned();
    let same = ["--socket-lb", "host", "--cgroup", &cgroup];
    let host = host.restart(World::killed, &same);
    let after = cgroup_links(&host.world.pins);
    for ((name, (link, program)), (name_after, (link_after, program_after))) in
        before.iter().zip(&after)
    {
        assert_eq!((name, link), (name_after, link_after), "the link stays");
        assert_ne!(program, program_after, "the program of {name} is replaced");
    }
    host.ask("sendto", target).unwrap();

    // Another cgroup than before, and hooks that were not wanted.
    let other = Cgroup::new().unwrap();
    let moved = [
        &["--socket-lb", "host", "--protect-node-ports", "--cgroup"][..],
        &[other.path().to_str().unwrap()],
    ]
    .concat();
    let host = host.restart(World::killed, &moved);
    let moved = cgroup_links(&host.world.pins);
    assert_eq!(moved.len(), 10, "{moved:?}");
    assert!(
        moved.iter().all(|link| !after.contains(link)),
        "each is another link: {moved:?}"
    );
    host.ask("sendto", target).unwrap_err();
    ask(&other, host.world.sandbox.node(), "sendto", target).unwrap();

    // That cgroup goes, and with it what was attached.
    let host = host.restart(
        |world| {
            let unattended = world.killed();
            drop(other);
            unattended
        },
        &same,
    );
    assert_eq!(cgroup_links(&host.world.pins).len(), 8);
    host.ask("sendto", target).unwrap();

    let host = host.restart(World::killed, &["--socket-lb", "off"]);
    assert_eq!(cgroup_links(&host.world.pins), []);
    let programs = host.world.pins.path().join("programs");
    assert!(!programs.join("sock_connect4").exists());
    host.ask("sendto", target).unwrap_err();
}

#[test]
fn processes_of_the_node_stay_clients_without_an_agent_until_a_cleanup() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let service = host.serve(Transport::Tcp);
    let target = service.cluster_ip().address();
    let HostWorld { world, cgroup } = host;
    let unattended = world.killed();
    ask(&cgroup, unattended.sandbox.node(), "tcp", target).unwrap();
    let path = unattended.pins.path().to_str().unwrap();
    let removed = run(binary().to_str().unwrap(), &["cleanup", "--pin-dir", path]).unwrap();
    assert!(removed.contains(&format!("{LINKS} links")), "{removed}");
    // The kernel detaches a link a little after its pin is removed (`bpf_link_put`).
    wait_until("a process of the node is no client", SOON, || {
        ask(&cgroup, unattended.sandbox.node(), "tcp", target).err()
    })
    .unwrap();
}

#[test]
fn status_shows_the_cgroup_and_its_hooks() {
    let Some(host) = HostWorld::new("all") else {
        return;
    };
    let status = host.world.shunt(&["status", "-o", "json"]).json();
    let hooks = [
        "getpeername4",
        "getpeername6",
        "recvmsg4",
        "recvmsg6",
        "sendmsg4",
        "sendmsg6",
        "connect4",
        "connect6",
    ];
    let expected = json!({
        "mode": "all", "cgroup": host.cgroup.path(), "root": false, "hooks": hooks,
        "problem": null,
    });
    assert_eq!(status["socket_lb"], expected);
    let text = host.world.shunt(&["status"]).clean();
    assert!(text.contains("NOT the root"), "{text}");
    let log = host.world.agent.log();
    assert!(log.contains("is not the root of all cgroups"), "{log}");
}

#[test]
fn a_directory_that_is_no_cgroup_is_refused() {
    if !has_root() {
        return;
    }
    let sandbox = Sandbox::new().unwrap();
    let pins = PinDir::new();
    let flags = ["--socket-lb", "host", "--cgroup", "/proc"];
    let refused = try_start_agent_with(&binary(), sandbox.node(), &pins, &flags).unwrap_err();
    let words = "/proc is not the directory of a cgroup of version 2";
    assert!(refused.to_string().contains(words), "{refused:#}");
    assert!(!pins.path().exists(), "it must not have begun");
}
