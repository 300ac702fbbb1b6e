//! The ways of packets in a test's network, and the interfaces that count as having the programs.

use std::net::IpAddr;

use aya::maps::{HashMap, Map, MapData};
use nix::net::if_::if_nametoindex;
use shunt_common::{InterfaceRole, registry};
use shunt_tests::run;

use super::{node::Node, world::Family};

/// Reports that the programs are on an interface, in the agent's place. Whatever has the agent look at its
/// interfaces undoes it.
pub(crate) fn attach(node: &mut Node, interface: &str) {
    let table = Map::HashMap(node.table_in_use(registry::INTERFACES.name));
    let mut interfaces: HashMap<MapData, [u32; 2], u32> = table.try_into().unwrap();
    let index = if_nametoindex(interface).unwrap();
    let InterfaceRole { interface, role } = InterfaceRole::attached(index);
    interfaces.insert([interface, role], 0, 0).unwrap();
}

/// Has packets to the address go out where all frames come in, or not.
pub(crate) fn go_back<A: Family>(address: A, is_on_way: bool)
where
    IpAddr: From<A>,
{
    let address = IpAddr::from(address).to_string();
    if is_on_way {
        run("ip", &["route", "replace", &address, "dev", "lo"]).unwrap();
    } else {
        run("ip", &["route", "delete", &address, "dev", "lo"]).unwrap();
    }
}
