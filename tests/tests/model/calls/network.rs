//! The networks of processes: the node's network namespace and a pod's. What leaves them goes nowhere,
//! and is seen; what is to come in does.

use std::{
    fs::File,
    io::{self, ErrorKind, Read as _},
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use etherparse::PacketBuilder;
use nix::sched::{CloneFlags, setns};
use shunt_tests::{Namespace, Tun};
use socket2::{Domain, Protocol, Socket, Type};

use crate::addresses::Pair;

/// `ETH_P_ALL` of `linux/if_ether.h`.
const ALL: u16 = 3;

/// IANA numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A network namespace with processes in it.
pub(crate) struct Network {
    namespace: File,
    tun: Tun,
    /// Sees each packet that leaves by any interface, the loopback's too.
    capture: Socket,
    /// The addresses that are its own.
    pub own: Pair,
}

impl Network {
    /// In this namespace, with these addresses.
    pub(crate) fn new(namespace: &Namespace, own: Pair) -> Self {
        let tun = Tun::new(namespace, "tun0").unwrap();
        for family in ["all", "default", "tun0"] {
            namespace
                .set(&format!("net/ipv4/conf/{family}/rp_filter"), "0")
                .unwrap();
        }
        namespace
            .configure(&format!(
                "link set tun0 up\n\
                 address add {}/32 dev tun0\n\
                 address add {}/128 dev tun0 nodad\n\
                 route add default dev tun0\n\
                 route add ::/0 dev tun0\n",
                own.v4, own.v6
            ))
            .unwrap();
        let capture = namespace.enter(|| {
            let all = Protocol::from(i32::from(ALL.to_be()));
            Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), Some(all)).unwrap()
        });
        Self {
            namespace: File::open(namespace.path()).unwrap(),
            tun,
            capture,
            own,
        }
    }

    /// Has this thread be in the namespace.
    pub(crate) fn enter(&self) {
        setns(&self.namespace, CloneFlags::CLONE_NEWNET).unwrap();
    }

    /// Returns the destination of the first packet that was sent from this port, by IANA number and port.
    /// All datagrams that were sent are gone then.
    pub(crate) fn sent(&self, from: (u8, u16)) -> Option<SocketAddr> {
        let mut buffer = [0; 256];
        let mut first = None;
        loop {
            match (&self.capture).read(&mut buffer) {
                Ok(length) => {
                    let found = Packet::read(&buffer[..length]);
                    let ours = found.filter(|packet| (packet.protocol, packet.from) == from);
                    first = first.or(ours.map(|packet| packet.to));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("packets are not seen: {error}"),
            }
        }
        // Else it is full soon.
        while self.tun.receive(&mut buffer).unwrap().is_some() {}
        first
    }

    /// Has a datagram come in that names its sender.
    pub(crate) fn bring(&self, from: SocketAddr, to: SocketAddr) {
        let header = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                PacketBuilder::ipv4(from.octets(), to.octets(), 64)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                PacketBuilder::ipv6(from.octets(), to.octets(), 64)
            }
            _ => panic!("a datagram is of one family"),
        };
        let mut packet = Vec::new();
        header
            .udp(from.port(), to.port())
            .write(&mut packet, from.to_string().as_bytes())
            .unwrap();
        self.tun.send(&packet).unwrap();
    }
}

/// A packet of a protocol that has ports.
struct Packet {
    protocol: u8,
    from: u16,
    to: SocketAddr,
}

impl Packet {
    /// From the network header on.
    fn read(bytes: &[u8]) -> Option<Self> {
        let port = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let (protocol, transport, address): (u8, usize, IpAddr) = match bytes.first()? >> 4 {
            4 => (
                *bytes.get(9)?,
                usize::from(bytes[0] & 0xf) * 4,
                (*bytes.get(16..)?.first_chunk::<4>()?).into(),
            ),
            6 => (
                *bytes.get(6)?,
                40,
                Ipv6Addr::from(*bytes.get(24..)?.first_chunk::<16>()?).into(),
            ),
            _ => return None,
        };
        matches!(protocol, TCP | UDP).then_some(())?;
        Some(Self {
            protocol,
            from: port(transport)?,
            to: SocketAddr::new(address, port(transport + 2)?),
        })
    }
}

/// The number of an error of a system call.
pub(crate) fn number(error: &io::Error) -> i32 {
    error
        .raw_os_error()
        .unwrap_or_else(|| panic!("no error of a system call: {error}"))
}
