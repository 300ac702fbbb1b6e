//! Abilities that not every kernel has. Each probe uses none of Shunt's code, so a test that needs an ability is
//! skipped for the kernel's sake alone.

use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result};
use nix::libc;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{client::Transport, families::has_ipv6, namespace::Namespace, unlisted::unlisted};

/// An ability of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Devices of this kind.
    Device(Device),
    /// Flowtables of nftables.
    Flowtables,
    /// ESP tunnels with the cipher of the tests.
    Ipsec,
    /// IPv6.
    Ipv6,
    /// Multipath TCP.
    Mptcp,
    /// SCTP sockets.
    Sctp,
    /// Lists of the sockets of this transport with their storage.
    Listed(Transport),
    /// Test runs of XDP programs behind metadata that takes the whole room before a frame.
    LongMetadata,
}

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kinds are iproute2's")]
pub enum Device {
    Bond,
    /// A bridge that filters VLANs.
    FilteringBridge,
    Geneve,
    Gre,
    Gretap,
    Ip6gre,
    Ip6tnl,
    Ipip,
    Macvlan,
    Sit,
    Vlan,
    Vti,
    Vxlan,
    Wireguard,
    Xfrm,
}

impl Ability {
    /// All abilities.
    pub const ALL: [Self; 23] = [
        Self::Device(Device::Bond),
        Self::Device(Device::FilteringBridge),
        Self::Device(Device::Geneve),
        Self::Device(Device::Gre),
        Self::Device(Device::Gretap),
        Self::Device(Device::Ip6gre),
        Self::Device(Device::Ip6tnl),
        Self::Device(Device::Ipip),
        Self::Device(Device::Macvlan),
        Self::Device(Device::Sit),
        Self::Device(Device::Vlan),
        Self::Device(Device::Vti),
        Self::Device(Device::Vxlan),
        Self::Device(Device::Wireguard),
        Self::Device(Device::Xfrm),
        Self::Flowtables,
        Self::Ipsec,
        Self::Ipv6,
        Self::Mptcp,
        Self::Sctp,
        Self::Listed(Transport::Tcp),
        Self::Listed(Transport::Udp),
        Self::LongMetadata,
    ];

    /// Returns the reason of a test that is skipped without the ability.
    pub fn lack(self) -> String {
        match self {
            Self::Device(device) => format!("the kernel has no {} devices", device.kind()),
            Self::Flowtables => "the kernel has no flowtables".to_owned(),
            Self::Ipsec => "the kernel has no IPsec tunnels".to_owned(),
            Self::Ipv6 => "the kernel has no IPv6".to_owned(),
            Self::Mptcp => "the kernel has no MPTCP".to_owned(),
            Self::Sctp => "the kernel has no SCTP".to_owned(),
            Self::Listed(transport) => {
                format!("the kernel lists no {transport} sockets with their storage")
            }
            Self::LongMetadata => "the kernel runs no XDP programs behind long metadata".to_owned(),
        }
    }

    /// Returns whether this kernel has it.
    ///
    /// # Errors
    ///
    /// If the probe fails for another reason, for example without root.
    pub fn is_there(self) -> Result<bool> {
        let is_there = match self {
            Self::Device(device) => is_configured(device.commands()),
            Self::Flowtables => has_flowtables(),
            Self::Ipsec => is_configured(IPSEC),
            Self::Ipv6 => Ok(has_ipv6()),
            Self::Mptcp => is_opened(Protocol::MPTCP),
            Self::Sctp => is_opened(Protocol::SCTP),
            Self::Listed(transport) => Ok(unlisted(transport).is_none()),
            // xdp_metalen_invalid of net/xdp.h took no more than 32 bytes before Linux 6.6.
            Self::LongMetadata => Ok(version()? >= (6, 6)),
        };
        is_there.with_context(|| format!("the probe of {self:?}"))
    }
}

impl Device {
    fn kind(self) -> &'static str {
        match self {
            Self::Bond => "bond",
            Self::FilteringBridge => "VLAN filtering bridge",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Gretap => "gretap",
            Self::Ip6gre => "ip6gre",
            Self::Ip6tnl => "ip6tnl",
            Self::Ipip => "ipip",
            Self::Macvlan => "macvlan",
            Self::Sit => "sit",
            Self::Vlan => "vlan",
            Self::Vti => "vti",
            Self::Vxlan => "vxlan",
            Self::Wireguard => "wireguard",
            Self::Xfrm => "xfrm",
        }
    }

    /// Commands of `ip` that make one in an empty namespace.
    fn commands(self) -> &'static str {
        match self {
            Self::Bond => "link add probe type bond\n",
            Self::FilteringBridge => "link add probe type bridge vlan_filtering 1\n",
            Self::Geneve => "link add probe type geneve id 7 remote 198.51.100.50\n",
            Self::Gre => "link add probe type gre local 198.51.100.1 remote 198.51.100.50\n",
            Self::Gretap => "link add probe type gretap local 198.51.100.1 remote 198.51.100.50\n",
            Self::Ip6gre => "link add probe type ip6gre local fd00::1 remote fd00::2\n",
            Self::Ip6tnl => "link add probe type ip6tnl local fd00::1 remote fd00::2\n",
            Self::Ipip => "link add probe type ipip local 198.51.100.1 remote 198.51.100.50\n",
            Self::Macvlan => {
                "link add below type veth peer name above\n\
                 link add link below name probe type macvlan mode bridge\n"
            }
            Self::Sit => "link add probe type sit local 198.51.100.1 remote 198.51.100.50\n",
            Self::Vlan => {
                "link add below type veth peer name above\n\
                 link add link below name probe type vlan id 5\n"
            }
            Self::Vti => "link add probe type vti local 198.51.100.1 remote 198.51.100.50 key 7\n",
            Self::Vxlan => {
                "link add probe type vxlan id 7 local 198.51.100.1 remote 198.51.100.50 \
                 dstport 4789\n"
            }
            Self::Wireguard => "link add probe type wireguard\n",
            Self::Xfrm => {
                "link add below type veth peer name above\n\
                 link add probe type xfrm dev below if_id 7\n"
            }
        }
    }
}

/// One direction of an ESP tunnel, by RFC 4106.
const IPSEC: &str = "xfrm state add src 198.51.100.1 dst 198.51.100.50 proto esp spi 0x1007 reqid 7 \
     mode tunnel aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128\n";

/// Rules of nft(8) that forward by a flowtable.
const FLOWTABLE: &str = "table inet probe {
    flowtable fast { hook ingress priority 0; }
    chain forward {
        type filter hook forward priority 0;
        ct state established meta l4proto tcp flow add @fast
    }
}
";

/// Makes an empty namespace.
fn namespace() -> Result<Namespace> {
    // Beside the sandboxes' own, which count from 0.
    static NEXT: AtomicU32 = AtomicU32::new(4_000_000);
    Namespace::new(NEXT.fetch_add(1, Ordering::Relaxed), "probe")
}

/// Returns whether the kernel knows all that these commands of `ip` name.
fn is_configured(commands: &str) -> Result<bool> {
    match namespace()?.configure(commands) {
        Ok(()) => Ok(true),
        Err(error) if is_lack(&format!("{error:#}")) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether the kernel takes a flowtable and a rule that fills it.
fn has_flowtables() -> Result<bool> {
    match namespace()?.run_with_input("nft", &["-f", "-"], FLOWTABLE) {
        Ok(_) => Ok(true),
        Err(error) if is_lack(&format!("{error:#}")) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether this error of `ip` or `nft` is the kernel's answer for a thing that it does not know.
fn is_lack(error: &str) -> bool {
    [
        "Unknown device type",
        "Operation not supported",
        // A module of nf_tables.
        "Could not process rule: No such file or directory",
        // Parts of IPsec, in the words of several kernels.
        "Protocol not supported",
        "Function not implemented",
        "Requested type not found",
        "Requested mode not found",
        "algorithm not found",
    ]
    .iter()
    .any(|answer| error.contains(answer))
}

/// Returns whether the kernel opens sockets of a protocol.
fn is_opened(protocol: Protocol) -> Result<bool> {
    let open = || Socket::new(Domain::IPV4, Type::STREAM, Some(protocol));
    match namespace()?.enter(open) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the first two numbers of the kernel's version.
fn version() -> Result<(u32, u32)> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    let version = next().zip(next());
    version.with_context(|| format!("no version: {release}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_lack_has_a_reason_of_its_own() {
        let lacks: BTreeSet<_> = Ability::ALL.iter().map(|ability| ability.lack()).collect();
        assert_eq!(lacks.len(), Ability::ALL.len());
    }

    #[test]
    fn other_errors_of_a_probe_are_no_lack() {
        for (answer, lack) in [
            (
                "`ip -n a -batch -` failed: Error: Unknown device type.",
                true,
            ),
            ("RTNETLINK answers: Operation not supported", true),
            ("Cannot open netlink socket: Protocol not supported", true),
            ("Error: Requested AEAD algorithm not found.", true),
            ("RTNETLINK answers: File exists", false),
            ("Error: argument \"gree\" is wrong: unknown", false),
            ("RTNETLINK answers: Operation not permitted", false),
        ] {
            assert_eq!(is_lack(answer), lack, "{answer}");
        }
    }
}
