//! Clients behind a tunnel to the node, a test for each kind of tunnel.

use std::{net::IpAddr, time::Duration};

use shunt_tests::{
    Ability, Device, Namespace, Sandbox, addresses::v6, has_program, kernel_has, wait_until,
};

use crate::{
    interfaces::{frontend_interfaces, shown},
    tun::Tun,
    world::World,
    xdp_devices::served_by_tc,
};

/// Addresses of the tunnel's ends, at the node and outside.
const ENDS: [&str; 2] = ["198.51.100.1", "198.51.100.50"];

/// The tunnel's interface at both ends.
const TUNNEL: &str = "tunnel0";

/// Time in which the agent has to follow a change.
const SOON: Duration = Duration::from_secs(5);

/// Keys of both directions of an IPsec tunnel: RFC 4106, a key of 16 bytes and a salt of 4.
const KEYS: &str = "aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128";

/// One end of a tunnel: its namespace, its own address and that of the other end.
type End<'a> = (&'a Namespace, IpAddr, IpAddr);

/// Serves clients behind a tunnel between these addresses, both ends of which `make` makes.
fn served(needs: &[Ability], ends: [IpAddr; 2], make: impl Fn([End<'_>; 2])) {
    let [node, outside] = ends;
    let tunnel = |sandbox: &Sandbox| {
        make([
            (sandbox.node(), node, outside),
            (sandbox.outside(), outside, node),
        ]);
    };
    served_by_tc(needs, tunnel, [TUNNEL, TUNNEL]);
}

fn ends() -> [IpAddr; 2] {
    ENDS.map(|address| address.parse().unwrap())
}

/// Serves clients behind a tunnel that `commands` make at each end, with its addresses in place of `LOCAL` and `REMOTE`.
fn served_by_commands(needs: &[Ability], ends: [IpAddr; 2], commands: &str) {
    served(needs, ends, |both| {
        for (end, local, remote) in both {
            let commands = commands.replace("LOCAL", &local.to_string());
            let commands = commands.replace("REMOTE", &remote.to_string());
            end.configure(&commands).unwrap();
        }
    });
}

/// As [`served_by_commands`], for a tunnel in IPv4 or IPv6 that is made by its kind and settings alone.
fn served_by(device: Device, ends: [IpAddr; 2], settings: &str) {
    let commands = format!("link add {TUNNEL} type {settings}\n");
    served_by_commands(&[Ability::Device(device)], ends, &commands);
}

/// As [`served_by`], for a tunnel in IPv6.
fn served_in_v6(device: Device, settings: &str) {
    if kernel_has(&[Ability::Ipv6]) {
        served_by(device, ends().map(v6), settings);
    }
}

#[test]
fn clients_behind_ipip_are_served() {
    served_by(Device::Ipip, ends(), "ipip local LOCAL remote REMOTE");
}

#[test]
fn clients_behind_sit_are_served() {
    served_by(
        Device::Sit,
        ends(),
        "sit mode any local LOCAL remote REMOTE",
    );
}

#[test]
fn clients_behind_ip6tnl_are_served() {
    served_in_v6(
        Device::Ip6tnl,
        "ip6tnl mode any local LOCAL remote REMOTE encaplimit none",
    );
}

#[test]
fn clients_behind_gre_are_served() {
    served_by(Device::Gre, ends(), "gre local LOCAL remote REMOTE");
}

#[test]
fn clients_behind_ip6gre_are_served() {
    served_in_v6(
        Device::Ip6gre,
        "ip6gre local LOCAL remote REMOTE encaplimit none",
    );
}

#[test]
fn clients_behind_gretap_are_served() {
    served_by(Device::Gretap, ends(), "gretap local LOCAL remote REMOTE");
}

#[test]
fn clients_behind_vxlan_are_served() {
    served_by(
        Device::Vxlan,
        ends(),
        "vxlan id 7 local LOCAL remote REMOTE dstport 4789",
    );
}

#[test]
fn clients_behind_geneve_are_served() {
    served_by(Device::Geneve, ends(), "geneve id 7 remote REMOTE");
}

/// Returns the states and policies of an IPsec tunnel, with these selectors of each.
fn ipsec([of_states, of_policies]: [&str; 2]) -> String {
    let state = |from: &str, to: &str| {
        format!(
            "xfrm state add src {from} dst {to} proto esp spi 0x1007 reqid 7 mode tunnel {KEYS} \
             {of_states}\n"
        )
    };
    let policy = |direction: &str, from: &str, to: &str| {
        format!(
            "xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir {direction} {of_policies} \
             tmpl src {from} dst {to} proto esp reqid 7 mode tunnel\n"
        )
    };
    [
        state("LOCAL", "REMOTE"),
        state("REMOTE", "LOCAL"),
        policy("out", "LOCAL", "REMOTE"),
        policy("in", "REMOTE", "LOCAL"),
        policy("fwd", "REMOTE", "LOCAL"),
    ]
    .concat()
}

#[test]
fn clients_behind_vti_are_served() {
    let link = format!("link add {TUNNEL} type vti local LOCAL remote REMOTE key 7\n");
    let needs = [Ability::Device(Device::Vti), Ability::Ipsec];
    served_by_commands(&needs, ends(), &(link + &ipsec(["", "mark 7"])));
}

#[test]
fn clients_behind_an_xfrm_interface_are_served() {
    let link = format!("link add {TUNNEL} type xfrm dev eth0 if_id 7\n");
    let needs = [Ability::Device(Device::Xfrm), Ability::Ipsec];
    let commands = link + &ipsec(["if_id 7", "if_id 7"]);
    served_by_commands(&needs, ends(), &commands);
}

#[test]
fn clients_behind_wireguard_are_served() {
    let needs = [Ability::Device(Device::Wireguard)];
    if !kernel_has(&needs) || !has_program("wg") {
        return;
    }
    served(&needs, ends(), |both| {
        let keys = both.map(|(end, ..)| {
            let key = end.run_with_input("wg", &["genkey"], "").unwrap();
            let public = end.run_with_input("wg", &["pubkey"], &key).unwrap();
            (key, public.trim().to_owned())
        });
        let peers = [&keys[1].1, &keys[0].1];
        let ends = both.into_iter().zip(&keys).zip(peers);
        for (((end, _, remote), (key, _)), peer) in ends {
            let link = format!("link add {TUNNEL} type wireguard\n");
            end.configure(&link).unwrap();
            let endpoint = format!("{remote}:51820");
            let set = [
                "set",
                TUNNEL,
                "listen-port",
                "51820",
                "private-key",
                "/dev/stdin",
                "peer",
                peer,
                "allowed-ips",
                "0.0.0.0/0",
                "endpoint",
                &endpoint,
            ];
            end.run_with_input("wg", &set, key).unwrap();
        }
    });
}

/// Waits until the interface has this state in the status. Returns its reason.
fn reason_of(world: &World, name: &str, state: &str) -> String {
    let shown = wait_until(&format!("{name} is {state}"), SOON, || {
        shown(world, name).filter(|shown| shown["state"] == state)
    });
    let shown = shown.unwrap();
    shown["reason"].as_str().unwrap_or_default().to_owned()
}

/// Adds tunnels with these settings to the node. Those whose packets begin with the tunnel's own header have to be
/// refused with the reason.
fn refused_with_the_reason(needs: &[Ability], tunnels: &[(String, bool)]) {
    if !kernel_has(needs) {
        return;
    }
    let Some(mut world) = World::new() else {
        return;
    };
    let add = |(number, (settings, is_refused)): (usize, &(String, bool))| {
        let name = format!("tunnel{number}");
        let add = format!("link add {name} type {settings}\n");
        world.sandbox.node().configure(&add).unwrap();
        (name, *is_refused)
    };
    let tunnels: Vec<_> = tunnels.iter().enumerate().map(add).collect();
    world.apply(&frontend_interfaces(&["auto"]));
    for (name, is_refused) in tunnels {
        if is_refused {
            assert!(shown(&world, &name).is_none(), "{name} is down");
        }
        let node = world.sandbox.node();
        node.configure(&format!("link set {name} up\n")).unwrap();
        let state = if is_refused { "failed" } else { "attached" };
        let reason = reason_of(&world, &name, state);
        let is_explained = reason.contains("GRE without a remote");
        assert_eq!(is_explained, is_refused, "{name}: {reason}");
    }
}

#[test]
fn gre_whose_packets_begin_with_its_own_header_is_refused_with_the_reason() {
    let [local, _] = ENDS;
    let tunnels = [
        (format!("gre local {local} key 7"), true),
        (format!("gre local {local} remote 224.0.0.77 key 8"), true),
        ("gre external".to_owned(), false),
    ];
    refused_with_the_reason(&[Ability::Device(Device::Gre)], &tunnels);
}

#[test]
fn ip6gre_whose_packets_begin_with_its_own_header_is_refused_with_the_reason() {
    let local = v6(ends()[0]);
    let tunnels = [
        (format!("ip6gre local {local} key 7"), true),
        ("ip6gre external".to_owned(), false),
    ];
    let needs = [Ability::Ipv6, Ability::Device(Device::Ip6gre)];
    refused_with_the_reason(&needs, &tunnels);
}

/// The link type alone needs no kernel with that tunnel: a tun interface takes any.
#[test]
fn auto_takes_the_link_type_of_ip6gre() {
    const IP6GRE: libc::c_ulong = 823;
    let Some(mut world) = World::new() else {
        return;
    };
    let tun = Tun::new(world.sandbox.node(), TUNNEL);
    tun.claim(IP6GRE);
    world.apply(&frontend_interfaces(&["auto"]));
    reason_of(&world, TUNNEL, "attached");
}
