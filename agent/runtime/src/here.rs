//! The addresses that are on this host.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use tokio::sync::watch;

/// The addresses on this host, whenever they change; `None`: they are not known yet.
pub type HereWatch = watch::Receiver<Option<Arc<Here>>>;

/// The addresses that are on this host: its own, and those of its pods and guests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Here {
    host: BTreeSet<IpAddr>,
    /// Single addresses of others, and networks with more than one.
    others: BTreeSet<IpAddr>,
    networks: Vec<IpNet>,
}

impl Here {
    /// This host has the addresses `host`, and others on it are in these networks.
    pub fn new(host: BTreeSet<IpAddr>, others: impl IntoIterator<Item = IpNet>) -> Self {
        let others = others.into_iter();
        let (single, networks): (Vec<_>, Vec<_>) =
            others.partition(|network| network.prefix_len() == network.max_prefix_len());
        Self {
            host,
            others: single.iter().map(IpNet::addr).collect(),
            networks,
        }
    }

    /// Returns whether an interface of this host has the address.
    pub fn is_host(&self, address: IpAddr) -> bool {
        self.host.contains(&address)
    }

    /// Returns whether the address is on this host.
    pub fn has(&self, address: IpAddr) -> bool {
        address.is_loopback()
            || self.is_host(address)
            || self.others.contains(&address)
            || self
                .networks
                .iter()
                .any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_here_if_the_host_or_somebody_on_it_has_it() {
        let host = ["192.168.0.1".parse().unwrap()].into();
        let others = ["10.1.0.0/24", "10.2.0.7/32", "fd00::7/128"];
        let here = Here::new(host, others.map(|network| network.parse().unwrap()));
        for (address, expected) in [
            ("192.168.0.1", (true, true)),
            ("127.0.0.1", (false, true)),
            ("::1", (false, true)),
            ("10.1.0.255", (false, true)),
            ("10.2.0.7", (false, true)),
            ("fd00::7", (false, true)),
            ("192.168.0.2", (false, false)),
            ("10.2.0.8", (false, false)),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(
                (here.is_host(address), here.has(address)),
                expected,
                "{address}"
            );
        }
    }
}
