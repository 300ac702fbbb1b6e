//! Rules that kube-proxy has left on this host.

use std::{collections::BTreeMap, fmt, fs, io, net::SocketAddr};

use super::{
    connections::translated,
    elements::Frontends,
    tables::{TABLE, delete, has_nat_chain, has_table},
};
use crate::host::nfnetlink::Family;

/// The chain that kube-proxy's iptables rules begin with.
const CHAIN: &str = "KUBE-SERVICES";

/// Files that list the tables of iptables that are not nftables'; their chains are in no file.
const LEGACY: [(&str, &str); 2] = [
    ("iptables", "/proc/net/ip_tables_names"),
    ("ip6tables", "/proc/net/ip6_tables_names"),
];

/// File that lists the virtual servers of IPVS.
const IPVS: &str = "/proc/net/ip_vs";

/// The rules by which kube-proxy translates on this host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KubeProxyRules {
    /// The families of its nftables tables.
    nftables: Vec<Family>,
    /// Its iptables rules, as people call them.
    iptables: Vec<String>,
    /// Number of IPVS's virtual servers.
    virtual_servers: usize,
}

/// Number of connections to each protocol and address.
pub(crate) type KubeProxyConnections = BTreeMap<(u8, SocketAddr), usize>;

impl KubeProxyRules {
    /// Finds the rules that are there now.
    ///
    /// # Errors
    ///
    /// If netfilter does not answer.
    pub(crate) fn find() -> io::Result<Self> {
        let mut found = Self::default();
        for family in Family::BOTH {
            if has_table(family)? {
                found.nftables.push(family);
            }
            if has_nat_chain(family, CHAIN)? {
                found
                    .iptables
                    .push(format!("chain {CHAIN} of {} nat", family.name()));
            }
        }
        for (name, path) in LEGACY {
            let names = fs::read_to_string(path).unwrap_or_default();
            if names.lines().any(|table| table == "nat") {
                found.iptables.push(format!("table nat of {name}-legacy"));
            }
        }
        found.virtual_servers = virtual_servers(&fs::read_to_string(IPVS).unwrap_or_default());
        Ok(found)
    }

    /// Returns whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        let Self {
            nftables,
            iptables,
            virtual_servers,
        } = self;
        nftables.is_empty() && iptables.is_empty() && *virtual_servers == 0
    }

    /// Returns whether there are some that kube-proxy's own image has to remove.
    pub(crate) const fn has_others(&self) -> bool {
        !self.iptables.is_empty() || self.virtual_servers > 0
    }

    /// Its nftables tables, as `nft` writes them.
    pub(crate) fn tables(&self) -> Vec<String> {
        let tables = self.nftables.iter();
        tables
            .map(|family| format!("{} {TABLE}", family.name()))
            .collect()
    }

    /// The connections that have not ended, and that its nftables rules have translated.
    ///
    /// # Errors
    ///
    /// If netfilter does not list them.
    pub(crate) fn connections(&self) -> io::Result<KubeProxyConnections> {
        let mut connections = KubeProxyConnections::new();
        for family in &self.nftables {
            let frontends = Frontends::of(*family)?;
            let asked = translated(*family)?.into_iter();
            for (protocol, to) in asked.filter(|(protocol, to)| frontends.has(*protocol, *to)) {
                *connections.entry((protocol, to)).or_default() += 1;
            }
        }
        Ok(connections)
    }

    /// Removes its nftables tables.
    ///
    /// # Errors
    ///
    /// If the kernel does not delete one.
    pub(crate) fn remove_tables(&self) -> io::Result<()> {
        self.nftables.iter().try_for_each(|family| delete(*family))
    }

    /// Returns the number of connections that have not ended and have their destination translated by netfilter, by
    /// any rules.
    ///
    /// # Errors
    ///
    /// If netfilter does not list them.
    pub(crate) fn translated() -> io::Result<usize> {
        let counts = Family::BOTH.map(|family| Ok(translated(family)?.len()));
        counts.into_iter().sum()
    }
}

impl fmt::Display for KubeProxyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.nftables.is_empty() {
            parts.push(format!("nftables ({})", self.tables().join(", ")));
        }
        if !self.iptables.is_empty() {
            parts.push(format!("iptables ({})", self.iptables.join(", ")));
        }
        if self.virtual_servers > 0 {
            parts.push(format!("IPVS ({} virtual servers)", self.virtual_servers));
        }
        if parts.is_empty() {
            f.write_str("none")
        } else {
            f.write_str(&parts.join(", "))
        }
    }
}

/// Returns the number of virtual servers in the list.
fn virtual_servers(list: &str) -> usize {
    let is_server = |line: &&str| {
        let protocol = line.split_whitespace().next();
        matches!(protocol, Some("TCP" | "UDP" | "SCTP"))
    };
    list.lines().filter(is_server).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_said_in_one_line() {
        let none = KubeProxyRules::default();
        assert_eq!((none.to_string().as_str(), none.is_empty()), ("none", true));
        let all = KubeProxyRules {
            nftables: Family::BOTH.to_vec(),
            iptables: vec!["chain KUBE-SERVICES of ip nat".to_owned()],
            virtual_servers: 2,
        };
        assert_eq!(
            all.to_string(),
            "nftables (ip kube-proxy, ip6 kube-proxy), iptables (chain KUBE-SERVICES of ip nat), \
             IPVS (2 virtual servers)"
        );
        assert!(all.has_others() && !all.is_empty());
    }

    #[test]
    fn virtual_servers_are_told_from_headings_and_real_servers() {
        let list = "IP Virtual Server version 1.2.1 (size=4096)\n\
                    Prot LocalAddress:Port Scheduler Flags\n  \
                      -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n\
                    TCP  0A600001:0050 rr\n  \
                      -> 0A010103:1F90      Masq    1      0          0\n\
                    UDP  0A60000A:0035 rr\n";
        assert_eq!(virtual_servers(list), 2);
        assert_eq!(virtual_servers(""), 0);
    }
}
