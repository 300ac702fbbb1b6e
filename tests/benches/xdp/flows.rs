//! Connections from outside to backends elsewhere, opened through the driver, and what a program
//! written by hand has to know of them.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context as _, Result, ensure};
use shunt_common::feeder::{
    FIRST_PORT, FLOWS_PER_CLIENT, Flow, LENGTH_V4, Plan, STATION, Translation,
};
use shunt_tests::{Taken, run_driver};

use super::{
    feeder::{Feeder, Table},
    node::{NODE, Node, nth},
};
use crate::packets::{
    node::{BACKEND_PORT, SERVICE_PORT},
    traffic::{Family, Peer, Traffic, Transport},
};

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Request,
    Reply,
}

/// Source and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends(pub SocketAddrV4, pub SocketAddrV4);

/// So many connections to so many services, each with one backend.
pub(super) struct Flows {
    count: u32,
    services: u32,
    /// By which port of this node each of them is known to its backend.
    ports: Vec<u16>,
}

impl Flows {
    /// Opens them on a node, frame by frame, and makes sure that each frame is sent on to where it
    /// belongs.
    ///
    /// # Errors
    ///
    /// If one is not.
    pub(super) fn open(node: &mut Node, count: u32, services: u32) -> Result<Self> {
        let mut flows = Self {
            count,
            services,
            ports: Vec::new(),
        };
        for number in 0..count {
            let came = flows.came(number, Way::Request);
            let sent = send(node, Transport::TcpSyn, Way::Request, came)?;
            flows.ports.push(sent.0.port());
            let goes = flows.goes(number, Way::Request);
            ensure!(sent == goes, "a flow goes by {sent:?}, not by {goes:?}");
            for (transport, way) in [
                (Transport::TcpSynAck, Way::Reply),
                (Transport::TcpAck, Way::Request),
            ] {
                let sent = send(node, transport, way, flows.came(number, way))?;
                let goes = flows.goes(number, way);
                ensure!(sent == goes, "a packet goes by {sent:?}, not by {goes:?}");
            }
        }
        Ok(flows)
    }

    /// The plan for one packet of each of them in turn.
    pub(super) fn plan(&self, way: Way) -> Plan {
        let plan = traffic(Transport::TcpAck, way)
            .spread(self.count, self.services)
            .plan();
        match way {
            Way::Request => plan,
            Way::Reply => Plan {
                hidden: u32::from_ne_bytes(NODE.octets()),
                ..plan
            },
        }
    }

    /// Writes the flows to the feeder and to the program with this table, and makes sure that
    /// this program makes the same of a packet as the node does.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub(super) fn teach(&self, feeder: &mut Feeder, node: &mut Node, table: Table) -> Result<()> {
        feeder.hide(&self.ports)?;
        for way in [Way::Request, Way::Reply] {
            feeder.learn(
                table,
                (0..self.count).map(|number| {
                    let came = self.came(number, way);
                    (flow(came), translation(came, self.goes(number, way)))
                }),
            )?;
            for number in [0, self.count - 1] {
                let frame = frame(Transport::TcpAck, way, self.came(number, way));
                let by_hand = run_driver(feeder.program(table.program())?, &frame)?;
                ensure!(
                    by_hand == run_driver(node.driver()?, &frame)?,
                    "what is written by hand does something else: {by_hand:?}"
                );
            }
        }
        Ok(())
    }

    /// The ends of a flow's packets as they come in. A reply comes to the port that its connection
    /// has by now.
    fn came(&self, number: u32, way: Way) -> Ends {
        let service = SocketAddrV4::new(nth(Peer::Services, number % self.services), SERVICE_PORT);
        match way {
            Way::Request => Ends(client(number), service),
            Way::Reply => {
                let Ends(node, backend) = self.goes(number, Way::Request);
                Ends(backend, node)
            }
        }
    }

    /// The ends of its packets as they go out.
    fn goes(&self, number: u32, way: Way) -> Ends {
        match way {
            Way::Request => {
                let backend = nth(Peer::Backends, number % self.services);
                let port = self.ports.get(number as usize).copied().unwrap_or_default();
                let node = SocketAddrV4::new(NODE, port);
                Ends(node, SocketAddrV4::new(backend, BACKEND_PORT))
            }
            Way::Reply => {
                let Ends(client, service) = self.came(number, Way::Request);
                Ends(service, client)
            }
        }
    }
}

/// The client of a flow, as the feeder numbers them.
pub(super) fn client(number: u32) -> SocketAddrV4 {
    let std::net::IpAddr::V4(first) = crate::packets::node::client(Family::V4) else {
        unreachable!("an IPv4 address is none")
    };
    let address = Ipv4Addr::from_bits(first.to_bits() + number / FLOWS_PER_CLIENT);
    SocketAddrV4::new(address, (FIRST_PORT + number % FLOWS_PER_CLIENT) as u16)
}

fn traffic(transport: Transport, way: Way) -> Traffic {
    let peer = match way {
        Way::Request => Peer::Services,
        Way::Reply => Peer::Backends,
    };
    Traffic::new(Family::V4, transport, peer)
}

/// Sends one frame through the driver; returns the ends that it goes on with.
fn send(node: &mut Node, transport: Transport, way: Way, came: Ends) -> Result<Ends> {
    match run_driver(node.driver()?, &frame(transport, way, came))? {
        Some(Taken::Sent(frame)) => ends(&frame).context("a short frame"),
        other => anyhow::bail!("{transport:?} of {came:?} is not sent on: {other:?}"),
    }
}

/// A frame as the feeder writes it.
pub(super) fn frame(transport: Transport, way: Way, came: Ends) -> Vec<u8> {
    let plan = traffic(transport, way).plan();
    let mut frame = Vec::with_capacity(LENGTH_V4);
    frame.extend(STATION);
    frame.extend([2, 0, 0, 0, 0, 2]);
    frame.extend(0x0800_u16.to_be_bytes());
    frame.extend(plan.network.to_ne_bytes());
    frame.extend(plan.hops.to_ne_bytes());
    frame.extend(addresses(came));
    let checksum = !changed(&[], &frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_ne_bytes());
    frame.extend(ports(came));
    for word in plan.transport {
        frame.extend(word.to_ne_bytes());
    }
    frame
}

fn ends(frame: &[u8]) -> Option<Ends> {
    let end = |address: usize, port: usize| {
        let address: [u8; 4] = frame.get(address..address + 4)?.try_into().ok()?;
        let port: [u8; 2] = frame.get(port..port + 2)?.try_into().ok()?;
        Some(SocketAddrV4::new(address.into(), u16::from_be_bytes(port)))
    };
    Some(Ends(end(26, 34)?, end(30, 36)?))
}

pub(super) fn addresses(Ends(source, destination): Ends) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&source.ip().octets());
    bytes[4..].copy_from_slice(&destination.ip().octets());
    bytes
}

fn ports(Ends(source, destination): Ends) -> [u8; 4] {
    let ([a, b], [c, d]) = (
        source.port().to_be_bytes(),
        destination.port().to_be_bytes(),
    );
    [a, b, c, d]
}

/// Change of a sum if one hop is taken away: a word from which 1 is, its complement and what is left.
pub(super) const ONE_HOP_LESS: u16 = 0xfffe;

/// Returns the floor's key of the flow.
pub(super) fn flow(came: Ends) -> Flow {
    const TCP: u64 = 6;
    Flow {
        addresses: u64::from_ne_bytes(addresses(came)),
        rest: u64::from(u32::from_ne_bytes(ports(came))) | TCP << 32,
    }
}

/// Returns the floor's translation of it.
fn translation(came: Ends, goes: Ends) -> Translation {
    let of_addresses = changed(&addresses(came), &addresses(goes));
    Translation {
        addresses: u64::from_ne_bytes(addresses(goes)),
        ports: u32::from_ne_bytes(ports(goes)),
        network_change: sum([of_addresses, ONE_HOP_LESS]),
        transport_change: sum([of_addresses, changed(&ports(came), &ports(goes))]),
    }
}

/// Returns the change of a checksum over the one if it is over the other (RFC 1624).
pub(super) fn changed(from: &[u8], to: &[u8]) -> u16 {
    let words = |bytes: &[u8]| -> Vec<u16> {
        let words = bytes.chunks_exact(2);
        words
            .map(|word| u16::from_ne_bytes([word[0], word[1]]))
            .collect()
    };
    sum(words(from).into_iter().map(|word| !word).chain(words(to)))
}

/// The sum in one's complement.
pub(super) fn sum(words: impl IntoIterator<Item = u16>) -> u16 {
    let sum: u32 = words.into_iter().map(u32::from).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}
