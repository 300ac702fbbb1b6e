//! The kernel's choice of a source address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Any port: nothing is sent.
const PORT: u16 = 9;

/// Returns the source address that the kernel prefers on the way to `destination`, in the namespace of the calling
/// thread. `None` if there is no route.
pub(crate) fn preferred_source(destination: IpAddr) -> Option<IpAddr> {
    let unspecified: IpAddr = match destination {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a UDP socket looks a route up and sends nothing.
    let socket = UdpSocket::bind((unspecified, 0)).ok()?;
    socket.connect((destination, PORT)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_on_the_way_to_this_host_is_the_destination() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(preferred_source(loopback), Some(loopback));
    }
}
