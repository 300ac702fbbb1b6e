//! The differences of the families: from the renderer's addresses to a family's and back, and names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use shunt_common::{
    Family, FrontendKey, SCTP, TCP, UDP, V4, V6,
    registry::{FamilyConstants, FamilyMaps},
};
use shunt_model::Protocol;

/// A family whose addresses are recognised among [`IpAddr`]s.
pub(crate) trait FromIp: Family {
    /// The family's own addresses.
    type Ip: Into<IpAddr> + Copy;

    /// As people call it.
    const NAME: &'static str;

    /// An address that only the default route leads to: one for documents (RFC 5737, RFC 3849).
    const ANYWHERE: IpAddr;

    /// Its maps.
    const MAPS: FamilyMaps;

    /// Its constants in the programs.
    const CONSTANTS: FamilyConstants;

    /// `ip` in network order.
    fn network_order(ip: Self::Ip) -> Self::Address;

    /// `ip` in network order, or `None` if it is of the other family.
    fn address(ip: IpAddr) -> Option<Self::Address>;

    /// The address in network order as an [`IpAddr`].
    fn ip(address: Self::Address) -> IpAddr;
}

impl FromIp for V4 {
    type Ip = Ipv4Addr;

    const NAME: &'static str = "IPv4";
    const ANYWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const MAPS: FamilyMaps = FamilyMaps::V4;
    const CONSTANTS: FamilyConstants = FamilyConstants::V4;

    fn network_order(ip: Ipv4Addr) -> u32 {
        u32::from_ne_bytes(ip.octets())
    }

    fn address(ip: IpAddr) -> Option<u32> {
        match ip {
            IpAddr::V4(ip) => Some(Self::network_order(ip)),
            IpAddr::V6(_) => None,
        }
    }

    fn ip(address: u32) -> IpAddr {
        Ipv4Addr::from(address.to_ne_bytes()).into()
    }
}

impl FromIp for V6 {
    type Ip = Ipv6Addr;

    const NAME: &'static str = "IPv6";
    const ANYWHERE: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    const MAPS: FamilyMaps = FamilyMaps::V6;
    const CONSTANTS: FamilyConstants = FamilyConstants::V6;

    fn network_order(ip: Ipv6Addr) -> [u32; 4] {
        bytemuck::cast(ip.octets())
    }

    fn address(ip: IpAddr) -> Option<[u32; 4]> {
        match ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => Some(Self::network_order(ip)),
        }
    }

    fn ip(address: [u32; 4]) -> IpAddr {
        Ipv6Addr::from(bytemuck::cast::<_, [u8; 16]>(address)).into()
    }
}

// The programs compare with these numbers.
const _: () = assert!(
    Protocol::Tcp.number() == TCP
        && Protocol::Udp.number() == UDP
        && Protocol::Sctp.number() == SCTP
);

/// The table's key of a frontend, or `None` if it is of the other family.
pub(crate) fn table_key<F: FromIp>(key: &shunt_model::FrontendKey) -> Option<FrontendKey<F>> {
    let shunt_model::FrontendKey {
        address,
        port,
        protocol,
    } = *key;
    Some(FrontendKey::new(
        F::address(address)?,
        port.to_be(),
        protocol.number(),
    ))
}
