//! Flows of IPv6 from outside, and what a program written by hand has to know of them.

use std::{
    array,
    net::{IpAddr, Ipv6Addr, SocketAddrV6},
};

use shunt_common::feeder::{EnvelopeV6, FIRST_PORT, FLOWS_PER_CLIENT, FlowV6, LENGTH_V6, STATION};

use super::node::{NODE_V6, OTHER_NODE_V6, nth_of};
use crate::packets::{
    node::SERVICE_PORT,
    traffic::{Family, Peer, Traffic, Transport},
};

/// Source and destination.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends(SocketAddrV6, SocketAddrV6);

impl Ends {
    /// Returns the ends of a flow's packets, as the feeder numbers them, to one of so many services in turn.
    pub(super) fn of(number: u32, services: u32) -> Self {
        let client = address(crate::packets::node::client(Family::V6));
        let client = client.to_bits() + u128::from(number / FLOWS_PER_CLIENT);
        let port = (FIRST_PORT + number % FLOWS_PER_CLIENT) as u16;
        let service = address(nth_of(Family::V6, Peer::Services, number % services));
        Self(
            SocketAddrV6::new(Ipv6Addr::from_bits(client), port, 0, 0),
            SocketAddrV6::new(service, SERVICE_PORT, 0, 0),
        )
    }

    /// A segment of an open connection, as the feeder writes it.
    pub(super) fn frame(self) -> Vec<u8> {
        let plan = Traffic::new(Family::V6, Transport::TcpAck, Peer::Services).plan();
        let Self(source, destination) = self;
        let mut frame = Vec::with_capacity(LENGTH_V6);
        frame.extend(STATION);
        frame.extend([2, 0, 0, 0, 0, 2]);
        frame.extend(0x86dd_u16.to_be_bytes());
        frame.extend(plan.network.to_ne_bytes());
        frame.extend(source.ip().octets());
        frame.extend(destination.ip().octets());
        frame.extend(self.ports());
        for word in plan.transport {
            frame.extend(word.to_ne_bytes());
        }
        frame
    }

    /// Returns the floor's key of the flow.
    pub(super) fn flow(self) -> FlowV6 {
        const TCP: u64 = 6;
        let Self(source, destination) = self;
        FlowV6 {
            addresses: words(*source.ip(), *destination.ip()),
            rest: u64::from(u32::from_ne_bytes(self.ports())) | TCP << 32,
        }
    }

    fn ports(self) -> [u8; 4] {
        let Self(source, destination) = self;
        let [a, b] = source.port().to_be_bytes();
        let [c, d] = destination.port().to_be_bytes();
        [a, b, c, d]
    }
}

/// An envelope between the two nodes.
pub(super) fn envelope() -> EnvelopeV6 {
    EnvelopeV6 {
        addresses: words(NODE_V6, OTHER_NODE_V6),
    }
}

/// Two addresses as they stand in a packet.
fn words(source: Ipv6Addr, destination: Ipv6Addr) -> [u64; 4] {
    let octets = [source.octets(), destination.octets()];
    let octets = octets.as_flattened();
    array::from_fn(|word| u64::from_ne_bytes(array::from_fn(|byte| octets[8 * word + byte])))
}

fn address(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => unreachable!("an IPv6 address is none"),
    }
}
