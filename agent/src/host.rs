//! What translation needs of this host, checked at start: what is wrong, and how to mend it.

use std::{fs, ops::RangeInclusive};

use shunt_common::PortRange;

/// The node ports of Kubernetes, unless its `--service-node-port-range` says otherwise.
const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;

/// The settings that matter, as `/proc/sys` of this network namespace has them; `None` where a
/// setting cannot be read.
///
/// `rp_filter` is not among them: a packet that reaches the stack has the source that it came
/// with, so the filter judges it as it would without us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostSettings {
    /// `net.ipv4.ip_forward`.
    pub forwards: Option<bool>,
    /// `net.ipv4.ip_local_port_range`: the ports that sockets get which ask for none.
    pub ephemeral_ports: Option<RangeInclusive<u16>>,
    /// `net.ipv4.ip_local_reserved_ports`: those of them that they do not get.
    pub reserved_ports: Vec<RangeInclusive<u16>>,
}

impl HostSettings {
    /// Reads them.
    pub fn read() -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok();
        Self::parse(
            read("ip_forward").as_deref(),
            read("ip_local_port_range").as_deref(),
            read("ip_local_reserved_ports").as_deref(),
        )
    }

    fn parse(forward: Option<&str>, ephemeral: Option<&str>, reserved: Option<&str>) -> Self {
        let range = |first: &str, last: &str| Some(first.parse().ok()?..=last.parse().ok()?);
        let reserved = reserved.unwrap_or_default().trim().split(',');
        Self {
            forwards: forward.map(|text| text.trim() != "0"),
            ephemeral_ports: ephemeral.and_then(|text| {
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

    /// What stands in the way of translation, a sentence each, with `snat_ports` as the source
    /// ports that connections are given and whether it is known which clients are on this node.
    pub fn complaints(&self, snat_ports: PortRange, has_pod_cidrs: bool) -> Vec<String> {
        let mut complaints = Vec::new();
        if self.forwards == Some(false) {
            complaints.push(
                "this host does not forward packets, so no backend in another namespace or on \
                 another node is reached: `sysctl -w net.ipv4.ip_forward=1`"
                    .to_owned(),
            );
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
        if !has_pod_cidrs {
            complaints.push(
                "without --pod-cidr this node's pods are taken for clients from outside: backends \
                 on other nodes see this node's address in place of theirs"
                    .to_owned(),
            );
        }
        complaints
    }

    /// The lowest port of `ports` that the host gives to sockets of its own.
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

    fn complaints(settings: &HostSettings) -> Vec<String> {
        settings.complaints(PortRange::within(61_000, 65_535).unwrap(), true)
    }

    #[test]
    fn a_host_with_the_defaults_of_linux_has_only_to_forward() {
        let settings = HostSettings::parse(Some("0\n"), Some("32768\t60999\n"), Some("\n"));
        let [complaint] = &complaints(&settings)[..] else {
            panic!("one complaint about {settings:?}");
        };
        assert!(complaint.contains("ip_forward=1"), "{complaint}");
        let settings = HostSettings::parse(Some("1\n"), Some("32768\t60999\n"), Some("\n"));
        assert_eq!(complaints(&settings), [""; 0]);
    }

    #[test]
    fn ports_that_sockets_get_clash_unless_they_are_reserved() {
        let settings = HostSettings::parse(Some("1"), Some("1024 65535"), Some("8080,30000-32767"));
        let [complaint] = &complaints(&settings)[..] else {
            panic!("one complaint about {settings:?}");
        };
        assert!(
            complaint.contains("--snat-ports, 61000 for one"),
            "{complaint}"
        );
        let all = Some("30000-32767,61000-65535");
        let settings = HostSettings::parse(Some("1"), Some("1024 65535"), all);
        assert_eq!(complaints(&settings), [""; 0]);
    }

    #[test]
    fn what_cannot_be_read_is_no_complaint() {
        assert_eq!(complaints(&HostSettings::default()), [""; 0]);
    }
}
