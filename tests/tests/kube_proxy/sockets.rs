//! The rows whose client is a process of the node, through the real socket hooks: this process connects,
//! and the kernel lists the peer of its socket.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::AsFd as _,
};

use nix::{errno::Errno, sys::stat::fstat};
use shunt_datapath::{Datapath, DatapathOptions, GuardOptions, SocketLb, SocketOptions};
use shunt_model::Protocol;
use shunt_runtime::Agent;
use shunt_tests::{has_root, own_cgroup};
use socket2::{Domain, Socket, Type};

use crate::{
    cases::{Case, Config, Flow, cases},
    difference::of_verdict,
    network::network,
    node::{Found, Node, renderer, resync},
    programs::small,
    report::Report,
};

/// An agent with programs at the cgroup of this process, for its own network namespace.
fn agent(config: &Config) -> Agent {
    let options = DatapathOptions {
        sockets: SocketOptions {
            mode: SocketLb::Host,
            required: true,
            cgroup: Some(own_cgroup().unwrap()),
            ..SocketOptions::default()
        },
        guard: GuardOptions {
            guard: true,
            echo: true,
        },
        ..small()
    };
    let mut datapath = Datapath::load(&options).unwrap();
    datapath.attach_sockets().unwrap();
    let mut agent = Agent::new(renderer(config), datapath, BTreeSet::new());
    agent.set_host_addresses(config.local_ips.clone()).unwrap();
    agent
}

/// Returns the outcome of a flow, and of more like it until all of so many endpoints were chosen.
fn found(flow: &Flow, expected: usize) -> Found {
    let mut found = ask(flow);
    for _ in 0..expected * 16 {
        if found.verdict != "dnat" || found.endpoints.len() >= expected {
            break;
        }
        let next = ask(flow);
        assert_eq!(next.verdict, "dnat", "{}: not always the same", flow.name);
        found.endpoints.extend(next.endpoints);
    }
    found
}

/// Returns the outcome of one connection.
fn ask(flow: &Flow) -> Found {
    let to = SocketAddr::new(flow.destination, flow.port);
    let socket = Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), None).unwrap();
    match socket.connect(&to.into()) {
        Ok(()) => {}
        Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or_default()) {
            Errno::EINPROGRESS => {}
            Errno::ECONNREFUSED => return Found::only("reject"),
            Errno::EPERM => return Found::only("drop"),
            other => panic!("{}: {other}", flow.name),
        },
    }
    let peer = peer(&socket).unwrap();
    if peer == to {
        return Found::only("untouched");
    }
    Found {
        endpoints: [peer.to_string()].into(),
        ..Found::only("dnat")
    }
}

/// Returns the address that a socket is connected to. `getpeername` does not return it: it returns the
/// address that the process gave.
fn peer(socket: &Socket) -> io::Result<SocketAddr> {
    let inode = fstat(socket.as_fd())?.st_ino.to_string();
    for table in ["tcp", "tcp6"] {
        let list = fs::read_to_string(format!("/proc/thread-self/net/{table}"))?;
        let mut lines = list.lines().skip(1);
        let found = lines.find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (*fields.get(9)? == inode).then(|| end(fields[2]))?
        });
        if let Some(peer) = found {
            return Ok(peer);
        }
    }
    Err(io::Error::other("the kernel does not list the socket"))
}

/// An address and port, words of 32 bits in the order of this machine, in hexadecimal digits.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<[u8; 4]>>>()?.concat();
    let v4 = bytes.first_chunk::<4>().filter(|_| bytes.len() == 4);
    let address: IpAddr = match v4 {
        Some(v4) => Ipv4Addr::from(*v4).into(),
        None => Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(),
    };
    Some(SocketAddr::new(
        address,
        u16::from_str_radix(port, 16).ok()?,
    ))
}

fn add(case: &Case, flow: &Flow, node: &Node<'_>, recorded: &mut Report, model: &mut Report) {
    let expected = node.found(flow);
    let found = found(flow, expected.endpoints.len());
    model.add(case, flow, found == expected, None, &(&found, &expected));
    let agrees = (flow.verdict.as_str(), &flow.endpoints) == (found.verdict, &found.endpoints);
    let reason = of_verdict(case, flow, &found);
    recorded.add(case, flow, agrees, reason, &found);
}

#[test]
fn the_socket_hooks_connect_processes_of_the_node_as_kube_proxy_does() {
    let Some(cases) = cases() else {
        return;
    };
    if !has_root() {
        return;
    }
    let (mut recorded, mut model) = (Report::default(), Report::default());
    let mut local_ips: Vec<_> = cases.iter().map(|case| &case.config.local_ips).collect();
    local_ips.sort();
    local_ips.dedup();
    for local_ips in local_ips {
        let of_node = cases
            .iter()
            .filter(|case| case.config.local_ips == *local_ips);
        let of_node: Vec<&Case> = of_node.collect();
        let network = network(&of_node[0].config);
        network.enter(|| {
            let mut agent = agent(&of_node[0].config);
            for case in of_node {
                agent.apply(resync(case)).unwrap();
                let node = Node::new(case);
                for flow in &case.flows {
                    if case.config.is_of_node(flow.source) && flow.key().protocol == Protocol::Tcp {
                        add(case, flow, &node, &mut recorded, &mut model);
                    }
                }
            }
        });
    }
    model.end("sockets, against source and renderer");
    recorded.end("sockets, verdicts and endpoints");
}

#[test]
fn an_end_is_read_as_the_kernel_writes_it() {
    for (text, expected) in [
        ("0100007F:1F90", "127.0.0.1:8080"),
        ("B80D0120000000000000000001000000:0050", "[2001:db8::1]:80"),
    ] {
        assert_eq!(end(text), expected.parse().ok(), "{text}");
    }
}
