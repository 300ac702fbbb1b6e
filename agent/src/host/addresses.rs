//! The addresses of this host, from the kernel.

use std::{collections::BTreeSet, io, net::IpAddr};

use nix::{ifaddrs::getifaddrs, sys::socket::SockaddrStorage};

/// The addresses of all interfaces of this network namespace (getifaddrs(3)).
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
