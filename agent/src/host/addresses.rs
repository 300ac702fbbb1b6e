//! The addresses of this host, from the kernel.

use std::{collections::BTreeSet, io, net::IpAddr};

use nix::{ifaddrs::getifaddrs, sys::socket::SockaddrStorage};

/// Devices that hold addresses of services and none of the node's: those of kube-proxy in mode ipvs, of kube-router, and
/// of NodeLocal DNSCache.
const OF_SERVICES: [&str; 3] = ["kube-ipvs0", "kube-dummy-if", "nodelocaldns"];

/// The addresses of this network namespace's interfaces (getifaddrs(3)), without those of services.
///
/// # Errors
///
/// The kernel could not be asked.
pub(crate) fn host_addresses() -> io::Result<BTreeSet<IpAddr>> {
    let address = |storage: SockaddrStorage| {
        let v4 = storage
            .as_sockaddr_in()
            .map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| {
            storage
                .as_sockaddr_in6()
                .map(|address| IpAddr::V6(address.ip()))
        })
    };
    Ok(getifaddrs()?
        .filter(|interface| !OF_SERVICES.contains(&interface.interface_name.as_str()))
        .filter_map(|interface| address(interface.address?))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_the_host_addresses_needs_no_rights() {
        host_addresses().unwrap();
    }
}
