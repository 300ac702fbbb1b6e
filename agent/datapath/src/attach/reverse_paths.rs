//! The setting `rp_filter` of interfaces: sources that the host's stack accepts IPv4 packets from.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use rtnetlink::{
    packet_core::NlasIterator,
    packet_route::{AddressFamily, RouteNetlinkMessage, address::AddressMessage},
};

use crate::netlink::dump::{HEADER, dump, dump_raw};

/// `RTM_GETNETCONF` of linux/rtnetlink.h.
const RTM_GETNETCONF: u16 = 82;

/// Attributes, and the index that stands for all interfaces, of linux/netconf.h.
const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_RP_FILTER: u16 = 3;
const NETCONFA_IFINDEX_ALL: i32 = -1;

/// `struct netconfmsg`: the family, `AF_INET`, and what is left of a word.
const INET: [u8; 4] = [2, 0, 0, 0];

/// The strict setting, as which the programs take each interface that is not known.
const STRICT: i32 = 1;

/// Interfaces where the stack accepts more sources than those that it would send packets to there, by index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReversePaths {
    /// Any source (`rp_filter` 0).
    pub(crate) unfiltered: BTreeSet<u32>,
    /// Each source that a route leads to (`rp_filter` 2).
    pub(crate) loosely_filtered: BTreeSet<u32>,
}

impl ReversePaths {
    /// Lists them, in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If the kernel does not list the settings or addresses.
    pub(crate) fn list() -> io::Result<Self> {
        let mut settings = BTreeMap::new();
        dump_raw(RTM_GETNETCONF, &INET, |message| {
            settings.extend(setting(message));
        })?;
        Ok(Self::of(&settings, &with_addresses()?))
    }

    /// Returns those of `interfaces`.
    pub(crate) fn among(&self, interfaces: &BTreeSet<u32>) -> Self {
        Self {
            unfiltered: &self.unfiltered & interfaces,
            loosely_filtered: &self.loosely_filtered & interfaces,
        }
    }

    /// Reads the interfaces' settings, by their indexes. `with_addresses` are the interfaces with an IPv4 address.
    fn of(settings: &BTreeMap<i32, i32>, with_addresses: &BTreeSet<u32>) -> Self {
        let of_all = settings.get(&NETCONFA_IFINDEX_ALL).copied();
        // A kernel that does not report the setting may have any.
        let of_all = of_all.unwrap_or(STRICT);
        let mut this = Self::default();
        for (index, own) in settings {
            // The others stand for several interfaces.
            let Ok(index) = u32::try_from(*index) else {
                continue;
            };
            // `IN_DEV_RPFILTER` of linux/inetdevice.h.
            match of_all.max(*own) {
                0 => {
                    this.unfiltered.insert(index);
                }
                STRICT => {}
                // `__fib_validate_source` of net/ipv4/fib_frontend.c is strict where there is no address.
                _ if with_addresses.contains(&index) => {
                    this.loosely_filtered.insert(index);
                }
                _ => {}
            }
        }
        this
    }
}

/// Reads the setting in a message with its header, and the interface's index before it.
fn setting(message: &[u8]) -> Option<(i32, i32)> {
    let attributes = message.get(HEADER + INET.len()..)?;
    let (mut index, mut filter) = (None, None);
    for attribute in NlasIterator::new(attributes).map_while(Result::ok) {
        let value = attribute.value().first_chunk().copied();
        match attribute.kind() {
            NETCONFA_IFINDEX => index = value.map(i32::from_ne_bytes),
            NETCONFA_RP_FILTER => filter = value.map(i32::from_ne_bytes),
            _ => {}
        }
    }
    Some((index?, filter?))
}

/// Returns the interfaces that have an IPv4 address.
fn with_addresses() -> io::Result<BTreeSet<u32>> {
    let mut request = AddressMessage::default();
    request.header.family = AddressFamily::Inet;
    let listing = dump(
        RouteNetlinkMessage::GetAddress(request),
        |message| match message {
            RouteNetlinkMessage::NewAddress(address) => Some(address.header.index),
            _ => None,
        },
    )?;
    Ok(listing.items.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: i32) -> Vec<u8> {
        let length = 8_u16;
        [
            &length.to_ne_bytes()[..],
            &kind.to_ne_bytes(),
            &value.to_ne_bytes(),
        ]
        .concat()
    }

    #[test]
    fn a_setting_is_read_and_what_is_none_is_left_out() {
        let begin = [0; HEADER + 4];
        let message = |attributes: &[Vec<u8>]| [&begin[..], &attributes.concat()].concat();
        let index = attribute(NETCONFA_IFINDEX, 7);
        let filter = attribute(NETCONFA_RP_FILTER, 2);
        let forwarding = attribute(2, 1);
        let whole = message(&[index.clone(), forwarding, filter.clone()]);
        assert_eq!(setting(&whole), Some((7, 2)));
        assert_eq!(setting(&message(&[index])), None);
        assert_eq!(setting(&message(&[filter])), None);
        for length in 0..whole.len() {
            assert_eq!(setting(&whole[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn the_greater_setting_of_an_interface_and_of_all_counts() {
        let known = |of_all, with_addresses: &[u32]| {
            let settings = [(-2, 0), (1, 0), (2, 1), (3, 2)].into_iter();
            let settings = settings.chain([(NETCONFA_IFINDEX_ALL, of_all)]);
            let with_addresses = with_addresses.iter().copied().collect();
            let ReversePaths {
                unfiltered,
                loosely_filtered,
            } = ReversePaths::of(&settings.collect(), &with_addresses);
            [unfiltered, loosely_filtered].map(|set| set.into_iter().collect::<Vec<_>>())
        };
        let addressed = [1, 2, 3];
        assert_eq!(known(0, &addressed), [vec![1], vec![3]]);
        assert_eq!(known(1, &addressed), [vec![], vec![3]]);
        assert_eq!(known(2, &addressed), [vec![], vec![1, 2, 3]]);
        assert_eq!(
            known(0, &[]),
            [vec![1], vec![]],
            "strict without an address"
        );
    }

    #[test]
    fn settings_that_are_not_reported_are_strict() {
        let settings = BTreeMap::from([(1, 0)]);
        let found = ReversePaths::of(&settings, &BTreeSet::from([1]));
        assert_eq!(found, ReversePaths::default());
    }

    #[test]
    fn the_kernel_lists_the_setting_of_the_loopback_interface_as_its_file_shows_it() {
        let setting = |name: &str| -> i32 {
            let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
            let text = std::fs::read_to_string(path).unwrap();
            text.trim().parse().unwrap()
        };
        let found = ReversePaths::list().unwrap();
        let expected = setting("all").max(setting("lo"));
        assert_eq!(found.unfiltered.contains(&1), expected == 0, "{expected}");
        let is_loose = found.loosely_filtered.contains(&1);
        assert_eq!(is_loose, expected > 1, "{expected}");
    }
}
