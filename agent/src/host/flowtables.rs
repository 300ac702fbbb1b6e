//! Flowtables of nftables: shortcuts through this host for established connections.
//!
//! The kernel looks for the device that a connection leaves by below VLANs and bridges (`nft_dev_path_info` of
//! net/netfilter/nft_flow_offload.c). If the flowtable has that device, packets leave there, and the programs at the
//! VLAN's or the bridge's own interface do not see them. In a network card (`flags offload`), no program sees them.

use std::{collections::BTreeSet, fmt, io};

use crate::host::nfnetlink::{
    INET, NFTABLES, V4, V6, attributes, family_name, list, text_of, value_of,
};

/// `NFT_MSG_GETFLOWTABLE` of linux/netfilter/nf_tables.h.
const GET_FLOWTABLE: u8 = 23;

/// `NFTA_FLOWTABLE_TABLE`, `NFTA_FLOWTABLE_NAME`, `NFTA_FLOWTABLE_HOOK` and `NFTA_FLOWTABLE_FLAGS`;
/// `NFTA_FLOWTABLE_HOOK_DEVS`; `NFTA_DEVICE_NAME` and `NFTA_DEVICE_PREFIX`; `NFT_FLOWTABLE_HW_OFFLOAD`.
const FLOWTABLE_TABLE: u16 = 1;
const FLOWTABLE_NAME: u16 = 2;
const FLOWTABLE_HOOK: u16 = 3;
const FLOWTABLE_FLAGS: u16 = 7;
const HOOK_DEVICES: u16 = 3;
const DEVICE_NAME: u16 = 1;
const DEVICE_PREFIX: u16 = 2;
const OFFLOADED: u32 = 1;

/// Number of devices that are named at most.
const NAMED: usize = 5;

/// An interface with the programs, and the devices below it if it is a VLAN's or a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    pub(crate) name: String,
    pub(crate) below: Vec<String>,
}

/// A flowtable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flowtable {
    family: u8,
    table: String,
    name: String,
    devices: Vec<Device>,
    /// True if network cards forward its connections.
    is_offloaded: bool,
}

/// Devices of a flowtable.
#[derive(Debug, PartialEq, Eq)]
enum Device {
    Name(String),
    /// All whose names begin so, since Linux 6.16.
    Prefix(String),
}

impl Flowtable {
    /// Reads all of them.
    ///
    /// # Errors
    ///
    /// If netfilter does not answer.
    pub(crate) fn read_all() -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for family in [V4, V6, INET] {
            list(NFTABLES, GET_FLOWTABLE, family, &[], |message| {
                all.extend(Self::read(family, message));
            })?;
        }
        Ok(all)
    }

    fn read(family: u8, message: &[u8]) -> Option<Self> {
        let flags = value_of(message, FLOWTABLE_FLAGS).and_then(|value| value.first_chunk());
        let hook = value_of(message, FLOWTABLE_HOOK)?;
        let devices = attributes(value_of(hook, HOOK_DEVICES)?);
        Some(Self {
            family,
            table: text_of(message, FLOWTABLE_TABLE)?,
            name: text_of(message, FLOWTABLE_NAME)?,
            devices: devices
                .filter_map(|(kind, value)| Device::read(kind, value))
                .collect(),
            is_offloaded: flags.is_some_and(|flags| u32::from_be_bytes(*flags) & OFFLOADED != 0),
        })
    }

    fn has(&self, name: &str) -> bool {
        self.devices.iter().any(|device| device.means(name))
    }

    /// Returns the devices where packets of the interface pass its programs by, a phrase each.
    fn bypasses<'a>(&'a self, interface: &'a Attached) -> impl Iterator<Item = String> + 'a {
        let Attached { name, below } = interface;
        let itself = (self.is_offloaded && self.has(name))
            .then(|| format!("{self} has {name} and offloads to network cards"));
        let below = below.iter().filter(|below| self.has(below));
        itself
            .into_iter()
            .chain(below.map(move |below| format!("{self} has {below}, below {name}")))
    }
}

impl fmt::Display for Flowtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            family,
            table,
            name,
            ..
        } = self;
        write!(f, "flowtable {name} of {} {table}", family_name(*family))
    }
}

impl Device {
    fn read(kind: u16, value: &[u8]) -> Option<Self> {
        // Without its end, which a prefix does not have.
        let text = value.split(|byte| *byte == 0).next()?;
        let text = str::from_utf8(text).ok()?.to_owned();
        match kind {
            DEVICE_NAME => Some(Self::Name(text)),
            DEVICE_PREFIX => Some(Self::Prefix(text)),
            _ => None,
        }
    }

    fn means(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Prefix(prefix) => name.starts_with(prefix),
        }
    }
}

/// Returns a sentence about the flowtables with devices where packets pass the programs by; `None` if there are none.
pub(crate) fn complaint(flowtables: &[Flowtable], attached: &[Attached]) -> Option<String> {
    let all: BTreeSet<String> = flowtables
        .iter()
        .flat_map(|flowtable| {
            attached
                .iter()
                .flat_map(move |interface| flowtable.bypasses(interface))
        })
        .collect();
    let named: Vec<_> = all.iter().take(NAMED).map(String::as_str).collect();
    let named = named.join("; ");
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    (!all.is_empty()).then(|| {
        format!(
            "nftables may forward established connections past Shunt's programs, so that replies leave with the address \
             of their backend: {named}{more}. Name the VLAN's or the bridge's own interface in the flowtable instead, \
             without the flag offload, or leave connections to pods out of it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::nfnetlink::{attribute, text};

    /// A flowtable with these devices, as the kernel lists it.
    fn listed(devices: &[Vec<u8>], flags: u32) -> Vec<u8> {
        [
            text(FLOWTABLE_TABLE, "fast"),
            text(FLOWTABLE_NAME, "f"),
            attribute(FLOWTABLE_HOOK, &attribute(HOOK_DEVICES, &devices.concat())),
            attribute(FLOWTABLE_FLAGS, &flags.to_be_bytes()),
        ]
        .concat()
    }

    fn flowtable(device: &str, flags: u32) -> Flowtable {
        Flowtable::read(INET, &listed(&[text(DEVICE_NAME, device)], flags)).unwrap()
    }

    fn attached(name: &str, below: &[&str]) -> Attached {
        Attached {
            name: name.to_owned(),
            below: below.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_flowtable_is_read_with_its_devices() {
        let devices = [text(DEVICE_NAME, "eth0"), attribute(DEVICE_PREFIX, b"veth")];
        let read = Flowtable::read(V4, &listed(&devices, OFFLOADED)).unwrap();
        assert!(read.is_offloaded);
        assert_eq!(read.to_string(), "flowtable f of ip fast");
        for (name, expected) in [
            ("eth0", true),
            ("eth01", false),
            ("veth7", true),
            ("v", false),
        ] {
            assert_eq!(read.has(name), expected, "{name}");
        }
        assert!(!flowtable("eth0", 2).is_offloaded);
        assert_eq!(Flowtable::read(V4, &[]), None);
    }

    #[test]
    fn devices_below_our_vlans_and_bridges_are_named() {
        let flowtables = [flowtable("eth0", 0)];
        let interfaces = [
            attached("eth0", &[]),
            attached("eth0.5", &["eth0"]),
            attached("br0", &["veth1"]),
        ];
        let complaint = complaint(&flowtables, &interfaces).unwrap();
        let named = ": flowtable f of inet fast has eth0, below eth0.5. Name";
        assert!(complaint.contains(named), "{complaint}");
    }

    #[test]
    fn a_flowtable_of_our_own_interfaces_is_none_to_be_named_unless_it_is_offloaded() {
        let interfaces = [attached("eth0.5", &["eth0"]), attached("br0", &["veth1"])];
        for device in ["eth0.5", "br0", "eth1"] {
            assert_eq!(complaint(&[flowtable(device, 0)], &interfaces), None);
        }
        let complaint = complaint(&[flowtable("br0", OFFLOADED)], &interfaces).unwrap();
        let named = ": flowtable f of inet fast has br0 and offloads to network cards. Name";
        assert!(complaint.contains(named), "{complaint}");
    }

    #[test]
    fn of_many_devices_some_are_named() {
        let below = ["a", "b", "c", "d", "e", "f", "g"];
        let flowtables = below.map(|device| flowtable(device, 0));
        let complaint = complaint(&flowtables, &[attached("br0", &below)]).unwrap();
        assert!(complaint.contains("; and 2 more. Name"), "{complaint}");
    }
}
