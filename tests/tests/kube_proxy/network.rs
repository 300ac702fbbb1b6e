//! The node's network: its addresses, and a way to all other hosts that gets no answer.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU32, Ordering},
};

use shunt_tests::Namespace;

use crate::cases::Config;

/// A namespace with the addresses of the node of a case.
pub(crate) fn network(config: &Config) -> Namespace {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let network = Namespace::new(number, "flows").unwrap();
    network.set("net/ipv4/ip_forward", "1").unwrap();
    network.set("net/ipv6/conf/all/forwarding", "1").unwrap();
    let mut commands = "link add eth0 type veth peer name peer\n\
                        link set eth0 up\nlink set peer up\n"
        .to_owned();
    for address in config
        .local_ips
        .iter()
        .filter(|address| !address.is_loopback())
    {
        let (length, further) = match address {
            IpAddr::V4(_) => (32, ""),
            IpAddr::V6(_) => (128, " nodad"),
        };
        commands.push_str(&format!(
            "address add {address}/{length} dev eth0{further}\n"
        ));
    }
    // The router's address is known, so no connection ends because it is not resolved.
    for (all, router) in [("default", "192.168.0.1"), ("::/0", "2001:db8::fffe")] {
        commands.push_str(&format!(
            "neighbour add {router} lladdr 02:00:00:00:00:99 dev eth0 nud permanent\n\
             route add {all} via {router} dev eth0 onlink\n"
        ));
    }
    network.configure(&commands).unwrap();
    network
}
