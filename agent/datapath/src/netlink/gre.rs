//! GRE tunnels that put their header before a packet by themselves, before our programs see it.

use rtnetlink::packet_route::link::{InfoData, InfoGre, InfoGre6};

/// Returns whether packets of a tunnel with these settings begin with the tunnel's own header at our programs.
///
/// The kernel has the stack write that header (`header_ops`) if the tunnel has no remote, so that the neighbour table
/// chooses the peer: `ipgre_tunnel_init` of net/ipv4/ip_gre.c, which does the same for a multicast remote, and
/// `ip6gre_tunnel_init` of net/ipv6/ip6_gre.c. A tunnel whose packets carry the peer as metadata (`external`) writes the
/// header itself, behind our programs, and so does one with a remote. The broadcast address is not enough: it is the
/// remote, and as empty with metadata.
///
/// The kernel chooses once: it refuses to give an IPv4 tunnel a remote or to take it (`ip_tunnel_changelink`), and for
/// an `ip6gre` tunnel that is changed so it keeps the first choice, which nothing shows.
pub(super) fn has_outer_header(data: &InfoData) -> bool {
    match data {
        InfoData::GreTun(facts) => {
            let is_of_one_peer = |fact: &InfoGre| match fact {
                InfoGre::Remote(remote) => !remote.is_unspecified() && !remote.is_multicast(),
                InfoGre::CollectMetadata => true,
                _ => false,
            };
            !facts.iter().any(is_of_one_peer)
        }
        InfoData::GreTun6(facts) => {
            let is_of_one_peer = |fact: &InfoGre6| match fact {
                InfoGre6::Remote(remote) => !remote.is_unspecified(),
                InfoGre6::CollectMetadata => true,
                _ => false,
            };
            !facts.iter().any(is_of_one_peer)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};

    use super::*;
    use crate::netlink::links::Link;

    /// Returns whether an interface with these settings, as the kernel reports them, has the header.
    fn is_found(kind: InfoKind, data: InfoData) -> bool {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName("gre1".to_owned()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind), LinkInfo::Data(data)]),
        ];
        Link::of(message).unwrap().has_outer_header
    }

    #[test]
    fn a_tunnel_has_the_header_unless_it_has_one_peer_or_metadata() {
        for (remote, has_metadata, expected) in [
            ("192.0.2.1", false, false),
            ("0.0.0.0", false, true),
            ("224.0.0.5", false, true),
            ("0.0.0.0", true, false),
        ] {
            let mut facts = vec![InfoGre::Ttl(64), InfoGre::Remote(remote.parse().unwrap())];
            facts.extend(has_metadata.then_some(InfoGre::CollectMetadata));
            let found = is_found(InfoKind::GreTun, InfoData::GreTun(facts.clone()));
            assert_eq!(found, expected, "{remote} {has_metadata}");
            // With an Ethernet header inside, the tunnel's own one is written behind the programs.
            assert!(!is_found(InfoKind::GreTap, InfoData::GreTap(facts)));
        }
        for (remote, has_metadata, expected) in [
            ("2001:db8::1", false, false),
            ("::", false, true),
            ("ff02::5", false, false),
            ("::", true, false),
        ] {
            let mut facts = vec![InfoGre6::Ttl(64), InfoGre6::Remote(remote.parse().unwrap())];
            facts.extend(has_metadata.then_some(InfoGre6::CollectMetadata));
            let found = is_found(InfoKind::GreTun6, InfoData::GreTun6(facts));
            assert_eq!(found, expected, "{remote} {has_metadata}");
        }
    }
}
