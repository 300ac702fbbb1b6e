//! Packets of flows between clients and services, or backends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use shunt_common::feeder::{LENGTH_V4, LENGTH_V6, Plan};

use super::node::{self, BACKEND_PORT, SERVICE_PORT};

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// The headers behind the ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A segment that opens a connection.
    TcpSyn,
    /// The answer to it.
    TcpSynAck,
    /// A segment of an open connection.
    TcpAck,
    /// A datagram.
    Udp,
}

/// The other end of the clients' flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The services, which the clients' packets go to.
    Services,
    /// Their backends, which the packets come from.
    Backends,
    /// A service that has no backends.
    Nobody,
    /// A host that is no service.
    Stranger,
    /// The services' addresses, at a port that none of them has.
    OtherPort,
}

/// Packets, one of each flow in turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    pub family: Family,
    pub transport: Transport,
    pub peer: Peer,
    flows: u32,
    services: u32,
    first_client: u32,
    in_order: bool,
}

impl Traffic {
    /// Packets of one flow, to one service.
    pub(crate) const fn new(family: Family, transport: Transport, peer: Peer) -> Self {
        Self {
            family,
            transport,
            peer,
            flows: 1,
            services: 1,
            first_client: 0,
            in_order: false,
        }
    }

    /// The same with so many flows, each to one of so many services in turn.
    #[must_use]
    pub(crate) fn spread(self, flows: u32, services: u32) -> Self {
        assert_eq!(flows % services, 0, "each service has as many flows");
        Self {
            flows,
            services,
            ..self
        }
    }

    /// As many others: those of clients that come so much later.
    #[must_use]
    pub(crate) const fn after(self, clients: u32) -> Self {
        Self {
            first_client: clients,
            ..self
        }
    }

    /// The same flows from the other end, or with other packets.
    #[must_use]
    pub(crate) const fn with(self, transport: Transport, peer: Peer) -> Self {
        Self {
            transport,
            peer,
            ..self
        }
    }

    /// The same, each flow after its neighbour.
    #[must_use]
    pub(crate) const fn in_order(self) -> Self {
        Self {
            in_order: true,
            ..self
        }
    }

    /// Returns the number of flows.
    pub(crate) const fn flows(&self) -> u32 {
        self.flows
    }

    /// The program that makes these packets.
    pub(crate) const fn feeder(&self) -> &'static str {
        match self.family {
            Family::V4 => "feed_v4",
            Family::V6 => "feed_v6",
        }
    }

    /// A frame to begin with: as long as the packets, and of their family.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let (length, ether_type): (usize, u16) = match self.family {
            Family::V4 => (LENGTH_V4, 0x0800),
            Family::V6 => (LENGTH_V6, 0x86dd),
        };
        let mut frame = vec![0; length];
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frame
    }

    /// The plan for the feeder.
    pub(crate) fn plan(&self) -> Plan {
        let &Self {
            family,
            transport,
            peer,
            flows,
            services,
            first_client,
            in_order,
        } = self;
        let (client_prefix, client) = words(node::client(family));
        let (peer_prefix, peer_word) = words(node::peer(family, peer));
        let step = if in_order { 1 % flows } else { step(flows) };
        let (number, bytes) = transport.header(peer);
        let payload = 20_u16;
        let (network, hops, sum, length) = match family {
            Family::V4 => {
                // Version and header length, service, total length, identification, no fragment.
                let mut header = [0x45, 0, 0, 20 + payload as u8, 0x12, 0x67, 0x40, 0];
                header[2..4].copy_from_slice(&(20 + payload).to_be_bytes());
                let hops = [64, number, 0, 0];
                let sum: u32 = [header.as_slice(), &hops]
                    .concat()
                    .chunks(2)
                    .map(|word| u32::from(u16::from_ne_bytes([word[0], word[1]])))
                    .sum();
                (header, hops, sum, LENGTH_V4)
            }
            Family::V6 => {
                let [high, low] = payload.to_be_bytes();
                ([0x60, 0, 0, 0, high, low, number, 64], [0; 4], 0, LENGTH_V6)
            }
        };
        let [first, rest] = [0, 8].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        });
        Plan {
            client_prefix,
            peer_prefix,
            client: client + first_client,
            peer: peer_word,
            peer_port: u32::from(
                match peer {
                    Peer::Backends => BACKEND_PORT,
                    Peer::OtherPort => SERVICE_PORT + 1,
                    _ => SERVICE_PORT,
                }
                .to_be(),
            ),
            reply: u32::from(peer == Peer::Backends),
            flows,
            flow: 0,
            step,
            services,
            service: 0,
            service_step: step % services,
            hops: u32::from_ne_bytes(hops),
            sum,
            length: length as u32,
            hidden: 0,
            network: u64::from_ne_bytes(network),
            transport: [first, rest],
        }
    }
}

impl Transport {
    /// Protocol number, and the 16 bytes after the ports, of what the client sends to `peer` or gets
    /// from it: a client's sequence numbers begin with 1000, a server's with 76. The checksum is
    /// that of no packet, and is not checked: it is only ever adjusted.
    fn header(self, peer: Peer) -> (u8, [u8; 16]) {
        const SYN: u8 = 0x02;
        const ACK: u8 = 0x10;
        const CLIENT: u32 = 1000;
        const SERVER: u32 = 76;
        let from_server = matches!(peer, Peer::Backends);
        let (flags, sequence, acknowledged) = match self {
            Self::Udp => {
                return (
                    17,
                    [0, 20, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
                );
            }
            Self::TcpSyn => (SYN, CLIENT, 0),
            Self::TcpSynAck => (SYN | ACK, SERVER, CLIENT + 1),
            Self::TcpAck if from_server => (ACK, SERVER + 1, CLIENT + 1),
            Self::TcpAck => (ACK, CLIENT + 1, SERVER + 1),
        };
        // Sequence number, acknowledgment number, header length, flags, window, checksum, urgent.
        let mut header = [
            0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0xfa, 0xf0, 0x12, 0x34, 0, 0,
        ];
        header[..4].copy_from_slice(&sequence.to_be_bytes());
        header[4..8].copy_from_slice(&acknowledged.to_be_bytes());
        (6, header)
    }
}

/// Returns the distance between flows that come one after the other: about the golden section of
/// them all, and without a common divisor, so that each has its turn.
fn step(flows: u32) -> u32 {
    let divisor = |a: u32, b: u32| {
        let (mut a, mut b) = (a, b);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let golden = (f64::from(flows) * 0.618_034) as u32;
    (golden..flows)
        .find(|&step| divisor(flows, step) == 1)
        .unwrap_or(0)
}

/// The words of an address in memory, without the last; and the last, in the machine's order.
fn words(address: IpAddr) -> ([u32; 3], u32) {
    match address {
        IpAddr::V4(address) => ([0; 3], Ipv4Addr::to_bits(address)),
        IpAddr::V6(address) => {
            let bytes = Ipv6Addr::octets(&address);
            let word = |place: usize| {
                let mut word = [0; 4];
                word.copy_from_slice(&bytes[place * 4..place * 4 + 4]);
                word
            };
            let prefix = [0, 1, 2].map(|place| u32::from_ne_bytes(word(place)));
            (prefix, u32::from_be_bytes(word(3)))
        }
    }
}
