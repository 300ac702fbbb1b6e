//! Settings that cannot work, and are refused before anything is touched.

use anyhow::{Result, bail};
use ipnet::IpNet;
use shunt_common::PortRange;
use shunt_datapath::Families;

/// The node ports of Kubernetes, without another `--service-node-port-range`.
const NODE_PORTS: [u16; 2] = [30_000, 32_767];

/// Refuses ports that node ports may have: a reply to the one could be taken for a request to the other.
///
/// # Errors
///
/// There are some.
pub(super) fn check_snat_ports(ports: PortRange) -> Result<()> {
    let PortRange { first, count } = ports;
    let last = first + (count - 1);
    let [lowest, highest] = NODE_PORTS;
    if first <= highest && last >= lowest {
        bail!(
            "--snat-ports {first}-{last} has ports of NodePorts ({lowest}-{highest}), and replies to the ones \
             would be taken for requests to the others: choose ports below or above them"
        );
    }
    Ok(())
}

/// Refuses ranges of a family that is left out.
///
/// # Errors
///
/// There is one.
pub(super) fn check_families(ranges: &[IpNet], families: Families) -> Result<()> {
    let Families { ipv4, ipv6 } = families;
    for range in ranges {
        let is_translated = if range.addr().is_ipv4() { ipv4 } else { ipv6 };
        if !is_translated {
            bail!("--pod-cidr {range} is of a family that --ip-families leaves out");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_node_ports_are_refused() {
        for (first, last, is_right) in [
            (1024, 29_999, true),
            (40_000, 40_999, true),
            (20_000, 30_100, false),
            (32_767, 40_000, false),
            (31_000, 31_001, false),
            (1024, 65_535, false),
        ] {
            let ports = PortRange::within(first, last).unwrap();
            assert_eq!(check_snat_ports(ports).is_ok(), is_right, "{first}-{last}");
        }
    }

    #[test]
    fn ranges_of_a_family_that_is_left_out_are_refused() {
        let ranges = ["10.1.1.0/24", "fd00::/64"].map(|range| range.parse().unwrap());
        let families = |ipv4, ipv6| Families { ipv4, ipv6 };
        assert!(check_families(&ranges, families(true, true)).is_ok());
        assert!(check_families(&ranges[..1], families(true, false)).is_ok());
        let error = check_families(&ranges, families(true, false)).unwrap_err();
        assert!(error.to_string().contains("fd00::/64"), "{error}");
        assert!(check_families(&ranges, families(false, true)).is_err());
    }
}
