//! From the renderer's addresses to a family's and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use shunt_common::{Family, FrontendKey, SCTP, TCP, UDP, V4, V6};

use crate::{api::Protocol, renderer};

/// A family whose addresses are told from [`IpAddr`]s.
pub trait FromIp: Family {
    /// `ip` in network order, or `None` if it is of the other family.
    fn address(ip: IpAddr) -> Option<Self::Address>;

    /// The address in network order as an [`IpAddr`].
    fn ip(address: Self::Address) -> IpAddr;
}

impl FromIp for V4 {
    fn address(ip: IpAddr) -> Option<u32> {
        match ip {
            IpAddr::V4(ip) => Some(u32::from_ne_bytes(ip.octets())),
            IpAddr::V6(_) => None,
        }
    }

    fn ip(address: u32) -> IpAddr {
        Ipv4Addr::from(address.to_ne_bytes()).into()
    }
}

impl FromIp for V6 {
    fn address(ip: IpAddr) -> Option<[u32; 4]> {
        match ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => Some(bytemuck::cast(ip.octets())),
        }
    }

    fn ip(address: [u32; 4]) -> IpAddr {
        Ipv6Addr::from(bytemuck::cast::<_, [u8; 16]>(address)).into()
    }
}

/// The table's key of a frontend, or `None` if it is of the other family.
pub fn table_key<F: FromIp>(key: &renderer::FrontendKey) -> Option<FrontendKey<F>> {
    let renderer::FrontendKey {
        address,
        port,
        protocol,
    } = *key;
    let protocol = match protocol {
        Protocol::Tcp => TCP,
        Protocol::Udp => UDP,
        Protocol::Sctp => SCTP,
    };
    Some(FrontendKey::new(
        F::address(address)?,
        port.to_be(),
        protocol,
    ))
}
