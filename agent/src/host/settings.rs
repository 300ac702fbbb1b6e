//! Translation's needs of this host, checked at start: what is wrong, and how to mend it.

use std::{fs, ops::RangeInclusive};

use ipnet::IpNet;
use shunt_common::PortRange;

/// The node ports of Kubernetes, unless its `--service-node-port-range` sets others.
const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;

/// The settings that matter, as `/proc/sys` of this network namespace has them; `None` where a
/// setting cannot be read.
///
/// `rp_filter` is not among them, as each value is good. A packet that reaches the stack has the source that it came with, so
/// the filter judges it as it would without us. For packets that do not, the datapath follows the setting
/// ([`shunt_datapath::Datapath::follow_reverse_paths`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HostSettings {
    /// `net.ipv4.ip_forward`.
    pub(crate) forwards: Option<bool>,
    /// `net.ipv6.conf.all.forwarding`.
    pub(crate) forwards_v6: Option<bool>,
    /// `net.ipv4.ip_local_port_range`: the ports that sockets get which ask for none.
    pub(crate) ephemeral_ports: Option<RangeInclusive<u16>>,
    /// `net.ipv4.ip_local_reserved_ports`: those of them that they do not get.
    pub(crate) reserved_ports: Vec<RangeInclusive<u16>>,
}

/// Translation's needs of the host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostNeeds<'a> {
    /// The source ports that connections are given.
    pub(crate) snat_ports: PortRange,
    /// Ranges from which this node's pods, or the cluster's, take their addresses.
    pub(crate) pod_cidrs: &'a [IpNet],
    /// True if interfaces identify this node's pods.
    pub(crate) pods_by_interface: bool,
    /// True if IPv4 is used here.
    pub(crate) ipv4: bool,
    /// True if IPv6 is.
    pub(crate) ipv6: bool,
}

impl HostSettings {
    /// Reads them.
    pub(crate) fn read() -> Self {
        Self::parse(|name| fs::read_to_string(format!("/proc/sys/net/{name}")).ok())
    }

    fn parse(read: impl Fn(&str) -> Option<String>) -> Self {
        let forwards = |name| read(name).map(|text| text.trim() != "0");
        let range = |first: &str, last: &str| Some(first.parse().ok()?..=last.parse().ok()?);
        // Both families' sockets share the settings that are called IPv4's.
        let reserved = read("ipv4/ip_local_reserved_ports").unwrap_or_default();
        let reserved = reserved.trim().split(',');
        Self {
            forwards: forwards("ipv4/ip_forward"),
            forwards_v6: forwards("ipv6/conf/all/forwarding"),
            ephemeral_ports: read("ipv4/ip_local_port_range").and_then(|text| {
                let (first, last) = text.trim().split_once(char::is_whitespace)?;
                range(first, last.trim())
            }),
            reserved_ports: reserved
                .filter_map(|part| {
                    let (first, last) = part.split_once('-').unwrap_or((part, part));
                    range(first, last)
                })
                .collect(),
        }
    }

    /// Returns what stands in the way of translation, a sentence each.
    pub(crate) fn complaints(&self, needs: &HostNeeds<'_>) -> Vec<String> {
        let HostNeeds {
            snat_ports,
            pod_cidrs,
            pods_by_interface,
            ipv4,
            ipv6,
        } = *needs;
        let mut complaints = Vec::new();
        for (family, used, forwards, setting) in [
            ("IPv4", ipv4, self.forwards, "net.ipv4.ip_forward"),
            (
                "IPv6",
                ipv6,
                self.forwards_v6,
                "net.ipv6.conf.all.forwarding",
            ),
        ] {
            if used && forwards == Some(false) {
                complaints.push(format!(
                    "this host does not forward {family} packets, so no backend in another \
                     namespace or on another node is reached: `sysctl -w {setting}=1`"
                ));
            }
        }
        let snat = snat_ports.first..=snat_ports.first + (snat_ports.count - 1);
        for (what, ports) in [("--snat-ports", snat), ("node ports", NODE_PORTS)] {
            if let Some(port) = self.shared_port(&ports) {
                let (first, last) = (ports.start(), ports.end());
                complaints.push(format!(
                    "the host may give its own sockets ports of the {what}, {port} for one, and \
                     their connections would clash with ours: `sysctl -w \
                     net.ipv4.ip_local_reserved_ports={first}-{last}`, beside what is there"
                ));
            }
        }
        let has = |ipv4| {
            pods_by_interface || pod_cidrs.iter().any(|range| range.addr().is_ipv4() == ipv4)
        };
        for (family, used, has) in [("IPv4", ipv4, has(true)), ("IPv6", ipv6, has(false))] {
            if used && !has {
                complaints.push(format!(
                    "without an {family} range in --pod-cidr, or a --detect-local-mode, this node's \
                     {family} pods are taken for clients from outside: backends on other nodes \
                     see this node's address in place of theirs"
                ));
            }
        }
        complaints
    }

    /// Returns the lowest port of `ports` that the host uses for sockets of its own.
    fn shared_port(&self, ports: &RangeInclusive<u16>) -> Option<u16> {
        let ephemeral = self.ephemeral_ports.as_ref()?;
        let reserved = |port: &u16| self.reserved_ports.iter().any(|range| range.contains(port));
        ports
            .clone()
            .find(|port| ephemeral.contains(port) && !reserved(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the complaints about a host with these settings, if it has no others.
    fn complaints(settings: &[(&str, &str)], ipv6: bool) -> Vec<String> {
        let settings = HostSettings::parse(|name| {
            let setting = settings.iter().find(|(known, _)| *known == name)?;
            Some(format!("{}\n", setting.1))
        });
        let pod_cidrs = ["10.1.0.0/16", "fd00:1::/64"].map(|range| range.parse().unwrap());
        settings.complaints(&HostNeeds {
            snat_ports: PortRange::within(61_000, 65_535).unwrap(),
            pod_cidrs: &pod_cidrs,
            pods_by_interface: false,
            ipv4: true,
            ipv6,
        })
    }

    const FORWARD: &str = "ipv4/ip_forward";
    const FORWARD_V6: &str = "ipv6/conf/all/forwarding";
    const EPHEMERAL: (&str, &str) = ("ipv4/ip_local_port_range", "32768\t60999");
    const RESERVED: &str = "ipv4/ip_local_reserved_ports";

    #[test]
    fn a_host_with_the_defaults_of_linux_has_only_to_forward() {
        let defaults = [(FORWARD, "0"), (FORWARD_V6, "0"), EPHEMERAL, (RESERVED, "")];
        let both = complaints(&defaults, true);
        let [first, second] = &both[..] else {
            panic!("two complaints, not {both:?}");
        };
        assert!(first.contains("net.ipv4.ip_forward=1"), "{first}");
        assert!(
            second.contains("net.ipv6.conf.all.forwarding=1"),
            "{second}"
        );
        assert_eq!(
            complaints(&defaults, false),
            std::slice::from_ref(first),
            "IPv6 is not used"
        );
        let forwarding = [(FORWARD, "1"), (FORWARD_V6, "1"), EPHEMERAL, (RESERVED, "")];
        assert_eq!(complaints(&forwarding, true), [""; 0]);
    }

    #[test]
    fn ports_that_sockets_get_clash_unless_they_are_reserved() {
        let all = ("ipv4/ip_local_port_range", "1024 65535");
        let found = complaints(&[all, (RESERVED, "8080,30000-32767")], true);
        let [complaint] = &found[..] else {
            panic!("one complaint, not {found:?}");
        };
        assert!(
            complaint.contains("--snat-ports, 61000 for one"),
            "{complaint}"
        );
        let reserved = (RESERVED, "30000-32767,61000-65535");
        assert_eq!(complaints(&[all, reserved], true), [""; 0]);
    }

    #[test]
    fn each_family_in_use_needs_its_pod_ranges() {
        let pod_cidrs = ["10.1.0.0/16".parse().unwrap()];
        let needs = |ipv6| HostNeeds {
            snat_ports: PortRange::within(1024, 29_999).unwrap(),
            pod_cidrs: &pod_cidrs,
            pods_by_interface: false,
            ipv4: true,
            ipv6,
        };
        let settings = HostSettings::default();
        assert_eq!(settings.complaints(&needs(false)), [""; 0]);
        let found = settings.complaints(&needs(true));
        assert!(
            matches!(&found[..], [one] if one.starts_with("without an IPv6 range in --pod-cidr")),
            "{found:?}"
        );
        let by_interface = HostNeeds {
            pods_by_interface: true,
            ..needs(true)
        };
        assert_eq!(settings.complaints(&by_interface), [""; 0]);
    }

    #[test]
    fn what_cannot_be_read_is_no_complaint() {
        assert_eq!(complaints(&[], true), [""; 0]);
    }
}
