//! The borders at which ways to addresses may begin to differ: at the prefixes of routes and of rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;

/// The routes of one family: of each table, of each prefix, where its routes lead, as an `L`.
pub(super) type Routes<L> = BTreeMap<u32, BTreeMap<IpNet, L>>;

/// Returns the prefixes at whose borders ways may differ. A route that leads where the one around it leads makes none,
/// however many there are.
pub(super) fn borders<L: PartialEq>(
    routes: Routes<L>,
    others: impl Iterator<Item = IpNet>,
) -> BTreeSet<IpNet> {
    let of_routes = routes.into_values().flat_map(without_repeats);
    of_routes.map(|(prefix, _)| prefix).chain(others).collect()
}

/// Returns the entries without those that have the value of the next shorter prefix around theirs.
pub(super) fn without_repeats<T: PartialEq>(entries: BTreeMap<IpNet, T>) -> BTreeMap<IpNet, T> {
    let mut kept: Vec<(IpNet, T)> = Vec::new();
    // The places of those around the prefix, each in the one before.
    let mut around: Vec<usize> = Vec::new();
    for (prefix, value) in entries {
        while let Some(place) = around.last()
            && !kept[*place].0.contains(&prefix)
        {
            around.pop();
        }
        if around.last().is_some_and(|place| kept[*place].1 == value) {
            continue;
        }
        around.push(kept.len());
        kept.push((prefix, value));
    }
    kept.into_iter().collect()
}

/// A prefix whose sample is sought.
struct Sought {
    prefix: IpNet,
    /// The first address that none of the prefixes in it has, as far as they were looked at.
    next: Option<u128>,
    sample: Option<IpAddr>,
}

impl Sought {
    /// Ends a gap at `end`, and gets a sample of it if there is none yet.
    fn end_gap(&mut self, end: Option<u128>) {
        if let (None, Some(next), Some(end)) = (self.sample, self.next, end)
            && next <= end
        {
            // In the middle: at the ends are addresses of networks, and everybody's.
            self.sample = Some(address(self.prefix, next + (end - next) / 2));
        }
    }
}

/// Returns an address of each prefix that is in no longer one, where there is any.
pub(super) fn samples(prefixes: &BTreeSet<IpNet>) -> Vec<(IpNet, IpAddr)> {
    let mut samples = Vec::with_capacity(prefixes.len());
    let mut around: Vec<Sought> = Vec::new();
    let end = |around: &mut Vec<Sought>, samples: &mut Vec<_>| {
        if let Some(mut sought) = around.pop() {
            sought.end_gap(Some(bits(sought.prefix.broadcast())));
            samples.extend(sought.sample.map(|sample| (sought.prefix, sample)));
        }
    };
    // Each prefix stands before those in it.
    for prefix in prefixes.iter().copied() {
        while let Some(last) = around.last()
            && !last.prefix.contains(&prefix)
        {
            end(&mut around, &mut samples);
        }
        let first = bits(prefix.network());
        if let Some(outer) = around.last_mut() {
            outer.end_gap(first.checked_sub(1));
            outer.next = bits(prefix.broadcast()).checked_add(1);
        }
        around.push(Sought {
            prefix,
            next: Some(first),
            sample: None,
        });
    }
    while !around.is_empty() {
        end(&mut around, &mut samples);
    }
    samples
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns the address of the prefix's family with these bits.
fn address(prefix: IpNet, bits: u128) -> IpAddr {
    match prefix {
        IpNet::V4(_) => Ipv4Addr::from_bits(bits as u32).into(),
        IpNet::V6(_) => Ipv6Addr::from_bits(bits).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn each_sample_is_of_its_prefix_and_of_no_longer_one() {
        let prefixes: BTreeSet<IpNet> = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.0/9",
            "10.128.0.0/9",
            "192.168.0.0/24",
            "192.168.0.0/25",
            "192.168.0.7/32",
            "255.255.255.255/32",
            "::/0",
            "fd00::/8",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
        ]
        .into_iter()
        .map(net)
        .collect();
        let samples = samples(&prefixes);
        for (prefix, sample) in &samples {
            let longest = prefixes.iter().filter(|other| other.contains(sample));
            assert_eq!(longest.max_by_key(|other| other.prefix_len()), Some(prefix));
        }
        let without: Vec<_> = prefixes
            .iter()
            .filter(|prefix| !samples.iter().any(|(sampled, _)| sampled == *prefix))
            .collect();
        assert_eq!(without, [&net("10.0.0.0/8")], "the two halves cover it");
    }

    #[test]
    fn a_route_that_leads_where_the_one_around_it_leads_makes_no_border() {
        let table = |routes: &[(&str, u8)]| -> BTreeMap<IpNet, u8> {
            let routes = routes.iter();
            routes
                .map(|(prefix, leads)| (net(prefix), *leads))
                .collect()
        };
        let main = table(&[
            ("0.0.0.0/0", 1),
            ("10.0.0.0/8", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.0/24", 2),
            ("10.1.3.0/24", 1),
            ("172.16.0.0/12", 1),
        ]);
        let other = table(&[("172.16.0.0/12", 1)]);
        let found = borders(
            [(254, main), (7, other)].into(),
            [net("192.168.0.0/16")].into_iter(),
        );
        let expected = [
            "0.0.0.0/0",
            "10.1.0.0/16",
            "10.1.3.0/24",
            "172.16.0.0/12",
            "192.168.0.0/16",
        ];
        assert_eq!(found, expected.into_iter().map(net).collect());
    }
}
