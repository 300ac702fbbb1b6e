//! Addresses and ranges as objects hold them.

use std::{fmt, net::IpAddr};

use ipnet::{IpNet, Ipv4Net};
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny},
};

/// An address of an object, or the text that is none: one that cannot be read takes nothing away
/// from the rest of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The address.
    Ip(IpAddr),
    /// Text that stands in its place.
    Bad(Box<str>),
}

impl Address {
    /// Returns the address in `text`.
    pub fn of(text: &str) -> Self {
        parse(text).map_or_else(|| Self::Bad(text.into()), Self::Ip)
    }

    /// The address, if it is one.
    pub const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(*ip),
            Self::Bad(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Address;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Address, E> {
                Ok(Address::of(text))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// The first address of a list that may be `null`, without a list of them.
pub(super) fn first_of_list<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Address>, D::Error> {
    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Option<Address>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of addresses")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Option<Address>, E> {
            Ok(None)
        }

        fn visit_seq<A: de::SeqAccess<'de>>(
            self,
            mut list: A,
        ) -> Result<Option<Address>, A::Error> {
            let first = list.next_element()?;
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(first)
        }
    }

    deserializer.deserialize_any(Visitor)
}

/// A range of addresses of an object, or the text that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Range {
    /// The range, without the bits that it leaves open.
    Net(IpNet),
    /// Text that stands in its place.
    Bad(Box<str>),
}

impl Range {
    /// Returns the range in `text`; white space around it does not count.
    pub fn of(text: &str) -> Self {
        parse_range(text.trim()).map_or_else(|| Self::Bad(text.into()), Self::Net)
    }

    /// The range, if it is one.
    pub const fn net(&self) -> Option<IpNet> {
        match self {
            Self::Net(net) => Some(*net),
            Self::Bad(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Range;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a range of addresses")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Range, E> {
                Ok(Range::of(text))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// The address, as Kubernetes reads it (`ParseIPSloppy` of k8s.io/utils/net): numbers of an IPv4
/// address are decimal, whatever zeros they begin with, and an IPv4-mapped address is IPv4.
fn parse(text: &str) -> Option<IpAddr> {
    let parsed = text.parse::<IpAddr>().ok();
    let address = parsed.or_else(|| without_leading_zeros(text)?.parse().ok())?;
    Some(address.to_canonical())
}

fn parse_range(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let mut length: u8 = length.parse().ok()?;
    let mapped =
        |address: IpAddr| matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let is_mapped = address.parse().is_ok_and(mapped);
    let address = parse(address)?;
    if is_mapped {
        length = length.checked_sub(128 - Ipv4Net::default().max_prefix_len())?;
    }
    Some(IpNet::new(address, length).ok()?.trunc())
}

/// The IPv4 address without zeros at the beginning of its numbers.
fn without_leading_zeros(text: &str) -> Option<String> {
    let numbers: Option<Vec<&str>> = text
        .split('.')
        .map(|number| match number.trim_start_matches('0') {
            "" => (!number.is_empty()).then_some("0"),
            rest => Some(rest),
        })
        .collect();
    Some(numbers?.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_kubernetes_does() {
        for (text, expected) in [
            ("172.30.0.41", Some("172.30.0.41")),
            ("172.30.0.041", Some("172.30.0.41")),
            ("010.000.001.001", Some("10.0.1.1")),
            ("fd00::1", Some("fd00::1")),
            ("FD00:0:0::0001", Some("fd00::1")),
            ("::ffff:192.0.2.1", Some("192.0.2.1")),
            ("", None),
            ("1.2.3", None),
            ("1..2.3", None),
            ("256.0.0.1", None),
            ("host", None),
        ] {
            let expected = expected.map_or_else(
                || Address::Bad(text.into()),
                |ip| Address::Ip(ip.parse().unwrap()),
            );
            assert_eq!(Address::of(text), expected, "{text}");
        }
    }

    #[test]
    fn ranges_are_read_as_kubernetes_does() {
        for (text, expected) in [
            ("203.0.113.0/25", Some("203.0.113.0/25")),
            (" 203.0.113.9/25\t", Some("203.0.113.0/25")),
            ("203.000.0113.0/24", Some("203.0.113.0/24")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("fd00::/16", Some("fd00::/16")),
            ("::ffff:192.0.2.0/120", Some("192.0.2.0/24")),
            ("203.0.113.0", None),
            ("203.0.113.0/33", None),
            ("::ffff:192.0.2.0/90", None),
            ("everyone", None),
        ] {
            let expected = expected.map_or_else(
                || Range::Bad(text.into()),
                |net| Range::Net(net.parse().unwrap()),
            );
            assert_eq!(Range::of(text), expected, "{text}");
        }
    }
}
