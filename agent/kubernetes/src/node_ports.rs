//! The addresses that NodePorts stand on.

use std::{collections::BTreeSet, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use shunt_model::unusable;

use crate::objects::{address::Range, node::PrimaryAddresses};

/// Addresses of this node that carry NodePorts: the value of `--nodeport-addresses`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NodePortAddresses {
    /// The node's primary address of each family.
    #[default]
    Primary,
    /// Addresses within these ranges.
    Within(Vec<IpNet>),
}

impl FromStr for NodePortAddresses {
    type Err = String;

    /// `primary`, or ranges separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "primary" {
            return Ok(Self::Primary);
        }
        let range = |text: &str| {
            Range::of(text)
                .net()
                .ok_or_else(|| format!("`{text}` is neither `primary` alone nor a CIDR"))
        };
        let ranges: Result<Vec<IpNet>, String> = text.split(',').map(range).collect();
        ranges.map(Self::Within)
    }
}

impl NodePortAddresses {
    /// Returns whether NodePorts are at this loopback address, as kube-proxy's iptables mode has them. `primary` does
    /// not exclude it.
    pub fn may_have_loopback(&self, address: IpAddr) -> bool {
        match self {
            Self::Primary => true,
            Self::Within(ranges) => is_within(ranges, address),
        }
    }

    /// Returns those of `host`, which are all addresses of this node's interfaces, that carry NodePorts.
    ///
    /// A family without a range has them on all of its addresses, and so has one with a range of all addresses.
    /// Loopback and link-local addresses have none.
    pub(super) fn of(
        &self,
        host: &BTreeSet<IpAddr>,
        primary: PrimaryAddresses,
    ) -> BTreeSet<IpAddr> {
        let ranges = match self {
            Self::Within(ranges) => ranges.clone(),
            Self::Primary => primary_ranges(primary),
        };
        let usable = host.iter().filter(|address| unusable(**address).is_none());
        usable
            .filter(|address| is_within(&ranges, **address))
            .copied()
            .collect()
    }
}

/// Returns whether one of the ranges has the address, or none is of its family.
fn is_within(ranges: &[IpNet], address: IpAddr) -> bool {
    let mut of_family = ranges
        .iter()
        .filter(|range| range.addr().is_ipv4() == address.is_ipv4())
        .peekable();
    of_family.peek().is_none() || of_family.any(|range| range.contains(&address))
}

fn primary_ranges(primary: PrimaryAddresses) -> Vec<IpNet> {
    let usable = primary
        .iter()
        .filter(|address| unusable(*address).is_none());
    usable.map(IpNet::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &[&str]) -> BTreeSet<IpAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn ranges_say_whether_loopback_addresses_have_node_ports() {
        for (flag, v4, v6) in [
            ("primary", true, true),
            ("192.0.2.0/24", false, true),
            ("192.0.2.0/24,127.0.0.0/8", true, true),
            ("0.0.0.0/0,fd00::/8", true, false),
            ("::/0", true, true),
        ] {
            let setting: NodePortAddresses = flag.parse().unwrap();
            let found = ["127.0.0.1", "::1"]
                .map(|address| setting.may_have_loopback(address.parse().unwrap()));
            assert_eq!(found, [v4, v6], "{flag}");
        }
    }

    #[test]
    fn node_ports_stand_where_kube_proxy_has_them() {
        let host = set(&[
            "127.0.0.1",
            "192.0.2.1",
            "192.0.2.9",
            "10.0.0.1",
            "::1",
            "fe80::1",
            "2001:db8::1",
            "fd00::1",
        ]);
        let all_v4 = &["10.0.0.1", "192.0.2.1", "192.0.2.9"];
        let all_v6 = &["2001:db8::1", "fd00::1"];
        let primary = PrimaryAddresses {
            v4: Some([192, 0, 2, 1].into()),
            v6: Some("2001:db8::1".parse().unwrap()),
        };
        let v4_only = PrimaryAddresses {
            v6: None,
            ..primary
        };
        let nowhere = PrimaryAddresses {
            v4: Some([192, 0, 2, 200].into()),
            ..primary
        };
        for (flag, primary, v4, v6) in [
            ("primary", primary, &["192.0.2.1"][..], &["2001:db8::1"][..]),
            // A family without a primary address is open.
            ("primary", v4_only, &["192.0.2.1"], all_v6),
            ("primary", PrimaryAddresses::default(), all_v4, all_v6),
            ("primary", nowhere, &[], &["2001:db8::1"]),
            ("192.0.2.0/24", primary, &["192.0.2.1", "192.0.2.9"], all_v6),
            (
                "192.0.2.0/24,fd00::/8",
                primary,
                &["192.0.2.1", "192.0.2.9"],
                &["fd00::1"],
            ),
            ("0.0.0.0/0,::/0", primary, all_v4, all_v6),
            ("127.0.0.0/8,::1/128", primary, &[], &[]),
        ] {
            let setting: NodePortAddresses = flag.parse().unwrap();
            let expected = set(&[v4, v6].concat());
            assert_eq!(setting.of(&host, primary), expected, "{flag} {primary:?}");
        }
    }

    #[test]
    fn primary_stands_alone() {
        for text in [
            "",
            "primary,10.0.0.0/8",
            "10.0.0.0/8,",
            "Primary",
            "10.0.0.0",
        ] {
            assert!(text.parse::<NodePortAddresses>().is_err(), "{text}");
        }
    }
}
