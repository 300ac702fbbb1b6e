//! A process with a socket, and whom it may ask.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{operations::Target, seen::formed, socket::Open};
use crate::{
    addresses::{BACKEND_IPS, BACKEND_PORTS, NODE, NODE_PORTS, OTHER_NODE, SERVICE_PORTS},
    cluster::Protocol,
    frontends::Cluster,
    operations::pick,
    resolve::any_endpoint,
};

/// Number of a socket's past destinations that are remembered.
const ASKED: usize = 20;

/// A process with a socket.
pub(super) struct Process {
    pub open: Open,
    /// The socket's peer, as it has it. Of TCP: or is about to be.
    pub peer: Option<SocketAddr>,
    /// True if the kernel still holds an IPv4 peer for it, though it may have another one.
    pub had_v4_peer: bool,
    /// True if it was bound to an address of IPv6, and has to do with no other ones.
    pub is_v6_only: bool,
    /// The addresses that the process requested last.
    pub requested: Vec<SocketAddr>,
    /// The destinations of these calls.
    pub asked: Vec<SocketAddr>,
}

impl Process {
    /// One that has done nothing yet with its socket.
    pub(super) const fn with(open: Open) -> Self {
        Self {
            open,
            peer: None,
            had_v4_peer: false,
            is_v6_only: false,
            requested: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// The address that the process passes, if there is one now.
    pub(super) fn target(&self, cluster: &Cluster, target: &Target) -> Option<SocketAddr> {
        let kind = self.open.kind;
        let of_family = |ip: &IpAddr| kind.is_ipv6 || ip.is_ipv4();
        let protocol = Protocol(self.open.protocol());
        let keys = cluster.frontends.keys();
        let frontends: Vec<(IpAddr, u16)> = keys
            .filter(|(of, at)| *of == protocol && of_family(&at.ip))
            .map(|(_, at)| (at.ip, at.port))
            .collect();
        let (ip, port) = match target {
            Target::Frontend(frontend) => pick(frontends.iter().copied(), *frontend)?,
            Target::Again(number) => {
                let requested = self.requested.iter().copied();
                let again = pick(requested.filter(|at| of_family(&at.ip())), *number)?;
                (again.ip(), again.port())
            }
            Target::AtHost { frontend, address } => {
                let all = [
                    Ipv4Addr::LOCALHOST.into(),
                    Ipv4Addr::UNSPECIFIED.into(),
                    [127, 1, 2, 3].into(),
                    NODE.v4.into(),
                    OTHER_NODE.v4.into(),
                    Ipv6Addr::LOCALHOST.into(),
                    Ipv6Addr::UNSPECIFIED.into(),
                    NODE.v6.into(),
                    OTHER_NODE.v6.into(),
                ];
                let ports = [NODE_PORTS, SERVICE_PORTS].concat();
                let ip = pick(all.into_iter().filter(of_family), *address)?;
                (ip, ports[usize::from(*frontend) % ports.len()])
            }
            Target::Beside { frontend, port } => {
                let (ip, _) = pick(frontends.iter().copied(), *frontend)?;
                (ip, [81, 79, 53, 8080][usize::from(*port) % 4])
            }
            Target::Backend(backend) => {
                let ip = pick(BACKEND_IPS.into_iter().filter(of_family), *backend)?;
                (ip, BACKEND_PORTS[usize::from(*backend) % 3])
            }
            Target::Other(number) => {
                let other = any_endpoint(*number, None);
                of_family(&other.ip).then_some((other.ip, other.port))?
            }
        };
        // No socket has this port.
        let to = SocketAddr::new(ip, if port == 0 { 81 } else { port });
        let number = match target {
            Target::Frontend(number) | Target::Again(number) => *number,
            _ => 0,
        };
        // Sockets of UDP take IPv4's form of an address too.
        let is_as_it_is = !kind.is_tcp && number % 7 == 6;
        Some(if is_as_it_is { to } else { formed(kind, to) })
    }
}

/// Has the address be the last of those that are remembered.
pub(super) fn note(addresses: &mut Vec<SocketAddr>, address: SocketAddr) {
    if addresses.len() == ASKED {
        addresses.remove(0);
    }
    addresses.push(address);
}
