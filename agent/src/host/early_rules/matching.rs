//! Conditions of a rule on a packet's headers, and whether a packet to a frontend can meet them.

use std::{
    net::IpAddr,
    ops::{Range, RangeInclusive},
};

use shunt_model::FrontendKey;

use crate::host::nfnetlink::{V4, V6};

/// The part of a packet, or of what netfilter knows about it, that a condition reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The network header.
    Network,
    /// The transport header.
    Transport,
    /// The number of the transport protocol.
    Protocol,
    /// The family, an `NFPROTO_`.
    Family,
}

/// Some bytes of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) place: Place,
    pub(super) offset: usize,
    /// The bits that count; as long as the field.
    pub(super) mask: Vec<u8>,
}

/// Comparison of a field with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    AtMost,
    AtLeast,
    Below,
    Above,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    /// A field has a value, in network order.
    Compare(Field, Comparison, Vec<u8>),
    /// The destination port is in one of these ranges.
    Ports(Vec<RangeInclusive<u16>>),
    /// The destination port is in none of them.
    OtherPorts(Vec<RangeInclusive<u16>>),
}

/// The conditions of a rule, as far as they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Match(pub(super) Vec<Condition>);

impl Match {
    /// Returns whether the conditions name the destination address or port of this frontend, in a table of this family,
    /// and no condition excludes packets to it.
    pub(super) fn names(&self, family: u8, key: &FrontendKey) -> bool {
        let is_of_family = match family {
            V4 => key.address.is_ipv4(),
            V6 => key.address.is_ipv6(),
            _ => true,
        };
        is_of_family
            && (self.0.iter()).any(|condition| condition.names(&address_of(key.address)))
            && self.0.iter().all(|condition| condition.allows(key))
    }

    /// Returns whether the conditions name any destination address or port.
    pub(super) fn reads_destination(&self) -> bool {
        let mut conditions = self.0.iter();
        conditions.any(|condition| condition.names(&ADDRESS_V4) || condition.names(&ADDRESS_V6))
    }

    #[cfg(test)]
    pub(super) fn to_ports(ports: RangeInclusive<u16>) -> Self {
        Self(vec![Condition::Ports(vec![ports])])
    }
}

impl Condition {
    /// Returns whether it requires something of the destination port, or of the address at this place of the network header.
    fn names(&self, address: &Range<usize>) -> bool {
        match self {
            Self::Compare(_, Comparison::NotEqual, _) | Self::OtherPorts(_) => false,
            Self::Compare(field, ..) => field.counting().any(|(index, _)| {
                let at = field.offset + index;
                match field.place {
                    Place::Network => address.contains(&at),
                    Place::Transport => PORT.contains(&at),
                    Place::Protocol | Place::Family => false,
                }
            }),
            Self::Ports(_) => true,
        }
    }

    /// Returns whether packets to the frontend can meet it. Bytes that the frontend does not determine, such as the
    /// source's, may have any value.
    fn allows(&self, key: &FrontendKey) -> bool {
        match self {
            Self::Compare(field, Comparison::Equal, value) => field
                .counting()
                .filter_map(|(index, mask)| {
                    let byte = byte_at(field.place, field.offset + index, key)?;
                    Some(byte & mask == value.get(index).copied().unwrap_or(0))
                })
                .all(|is_equal| is_equal),
            Self::Compare(field, comparison, value) => {
                let known: Option<Vec<u8>> = (field.mask.iter().enumerate())
                    .map(|(index, mask)| {
                        Some(byte_at(field.place, field.offset + index, key)? & mask)
                    })
                    .collect();
                known.is_none_or(|known| comparison.holds(&known, value))
            }
            Self::Ports(ranges) => is_in(ranges, key.port),
            Self::OtherPorts(ranges) => !is_in(ranges, key.port),
        }
    }
}

impl Field {
    /// The bytes of which a bit counts: index and mask.
    fn counting(&self) -> impl Iterator<Item = (usize, u8)> {
        let bytes = self.mask.iter().copied().enumerate();
        bytes.filter(|(_, mask)| *mask != 0)
    }
}

impl Comparison {
    fn holds(self, left: &[u8], right: &[u8]) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::AtMost => left <= right,
            Self::AtLeast => left >= right,
            Self::Below => left < right,
            Self::Above => left > right,
        }
    }
}

fn is_in(ranges: &[RangeInclusive<u16>], port: u16) -> bool {
    ranges.iter().any(|range| range.contains(&port))
}

/// Place of the destination port in the headers of TCP, UDP and SCTP.
const PORT: Range<usize> = 2..4;

/// Places of the destination address in the network headers.
const ADDRESS_V4: Range<usize> = 16..20;
const ADDRESS_V6: Range<usize> = 24..40;

/// Place of this destination address in the network header.
const fn address_of(address: IpAddr) -> Range<usize> {
    match address {
        IpAddr::V4(_) => ADDRESS_V4,
        IpAddr::V6(_) => ADDRESS_V6,
    }
}

/// The byte that every packet to the frontend has there; `None` if packets differ. IPv6's next header is the protocol,
/// as for rules that read it there.
fn byte_at(place: Place, offset: usize, key: &FrontendKey) -> Option<u8> {
    let protocol = key.protocol.number();
    let in_address = || offset.checked_sub(address_of(key.address).start);
    match (place, key.address) {
        (Place::Network, IpAddr::V4(_)) if offset == 9 => Some(protocol),
        (Place::Network, IpAddr::V6(_)) if offset == 6 => Some(protocol),
        (Place::Network, IpAddr::V4(address)) => address.octets().get(in_address()?).copied(),
        (Place::Network, IpAddr::V6(address)) => address.octets().get(in_address()?).copied(),
        (Place::Transport, _) => {
            let index = offset.checked_sub(PORT.start)?;
            key.port.to_be_bytes().get(index).copied()
        }
        (Place::Protocol, _) => (offset == 0).then_some(protocol),
        (Place::Family, IpAddr::V4(_)) => (offset == 0).then_some(V4),
        (Place::Family, IpAddr::V6(_)) => (offset == 0).then_some(V6),
    }
}

#[cfg(test)]
mod tests {
    use shunt_model::Protocol;

    use super::*;
    use crate::host::nfnetlink::INET;

    fn key(address: &str, port: u16) -> FrontendKey {
        FrontendKey {
            address: address.parse().unwrap(),
            port,
            protocol: Protocol::Tcp,
        }
    }

    fn compare(place: Place, offset: usize, comparison: Comparison, value: &[u8]) -> Condition {
        let field = Field {
            place,
            offset,
            mask: vec![0xff; value.len()],
        };
        Condition::Compare(field, comparison, value.to_vec())
    }

    fn equal(place: Place, offset: usize, value: &[u8]) -> Condition {
        compare(place, offset, Comparison::Equal, value)
    }

    #[test]
    fn a_rule_names_a_frontend_by_address_or_port_if_nothing_excludes_it() {
        let address = || equal(Place::Network, 16, &[203, 0, 113, 7]);
        let port = |port: u16| equal(Place::Transport, 2, &port.to_be_bytes());
        let protocol = |number| equal(Place::Protocol, 0, &[number]);
        let frontend = key("203.0.113.7", 80);
        for (conditions, expected) in [
            (vec![address()], true),
            (vec![port(80)], true),
            (vec![protocol(6), address(), port(80)], true),
            (vec![address(), port(81)], false),
            (vec![protocol(17), address()], false),
            // Without a destination, or with another one.
            (vec![protocol(6)], false),
            (vec![equal(Place::Network, 12, &[203, 0, 113, 7])], false),
            (vec![equal(Place::Network, 16, &[203, 0, 113, 8])], false),
            // iptables reads only the bytes of a prefix; source and destination may be one comparison.
            (vec![equal(Place::Network, 16, &[203, 0, 113])], true),
            (
                vec![equal(Place::Network, 12, &[9, 9, 9, 9, 203, 0, 113, 7])],
                true,
            ),
            (vec![equal(Place::Transport, 0, &[1, 2, 0, 80])], true),
            (
                vec![compare(Place::Transport, 2, Comparison::NotEqual, &[0, 80])],
                false,
            ),
            (
                vec![
                    address(),
                    compare(Place::Transport, 2, Comparison::NotEqual, &[0, 80]),
                ],
                false,
            ),
            (
                vec![
                    compare(Place::Transport, 2, Comparison::AtLeast, &[0, 70]),
                    compare(Place::Transport, 2, Comparison::AtMost, &[0, 90]),
                ],
                true,
            ),
            (
                vec![compare(Place::Transport, 2, Comparison::Above, &[0, 80])],
                false,
            ),
            (vec![Condition::Ports(vec![1..=2, 80..=80])], true),
            (vec![address(), Condition::OtherPorts(vec![80..=80])], false),
            (vec![Condition::OtherPorts(vec![81..=81])], false),
        ] {
            let of_rule = Match(conditions.clone());
            assert_eq!(of_rule.names(V4, &frontend), expected, "{conditions:?}");
            assert!(!expected || of_rule.reads_destination(), "{conditions:?}");
        }
    }

    #[test]
    fn each_family_has_its_own_layout() {
        let octets = "2001:db8::7"
            .parse::<std::net::Ipv6Addr>()
            .unwrap()
            .octets();
        let v6 = Match(vec![equal(Place::Network, 24, &octets)]);
        let frontend = key("2001:db8::7", 80);
        assert!(v6.names(V6, &frontend) && v6.names(INET, &frontend));
        assert!(!v6.names(V4, &frontend));
        let of_v4 = vec![
            equal(Place::Family, 0, &[V4]),
            equal(Place::Transport, 2, &[0, 80]),
        ];
        assert!(!Match(of_v4.clone()).names(INET, &frontend));
        assert!(Match(of_v4).names(INET, &key("203.0.113.7", 80)));
    }

    #[test]
    fn bits_that_do_not_count_may_differ() {
        let prefix = |mask: Vec<u8>, value: &[u8]| {
            let field = Field {
                place: Place::Network,
                offset: 16,
                mask,
            };
            Match(vec![Condition::Compare(
                field,
                Comparison::Equal,
                value.to_vec(),
            )])
        };
        let frontend = key("203.0.113.7", 80);
        let of_prefix = prefix(vec![0xff, 0xff, 0xff, 0xf0], &[203, 0, 113, 0]);
        assert!(of_prefix.names(V4, &frontend));
        assert!(!of_prefix.names(V4, &key("203.0.113.17", 80)));
        let any = prefix(vec![0; 4], &[0; 4]);
        assert!(!any.names(V4, &frontend) && !any.reads_destination());
        assert!(!Match::default().reads_destination());
    }
}
