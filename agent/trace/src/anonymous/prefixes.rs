//! Addresses: others in their place, which begin alike where they did.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;

use super::key::Key;
use crate::dump::content::LinkAddress;

/// A range that means something to programs or kernel, and whether the addresses in it do too.
struct Special {
    range: &'static str,
    is_kept: bool,
}

const fn kept(range: &'static str) -> Special {
    Special {
        range,
        is_kept: true,
    }
}

const fn inside(range: &'static str) -> Special {
    Special {
        range,
        is_kept: false,
    }
}

/// No address leaves one of these, and none gets into one.
const SPECIAL: [Special; 16] = [
    kept("0.0.0.0/8"),
    kept("127.0.0.0/8"),
    kept("169.254.0.0/16"),
    kept("224.0.0.0/3"),
    inside("10.0.0.0/8"),
    inside("100.64.0.0/10"),
    inside("172.16.0.0/12"),
    inside("192.168.0.0/16"),
    kept("::/96"),
    kept("ff00::/8"),
    // What the agent gives as the hairpin address (docs, README).
    kept("fd9a:7452:4a6d::/48"),
    inside("::ffff:0:0/96"),
    inside("64:ff9b::/96"),
    inside("fe80::/64"),
    inside("fc00::/7"),
    inside("2000::/3"),
];

/// Replaces addresses.
#[derive(Debug)]
pub(crate) struct Addresses {
    key: Key,
    special: Vec<(Bits, bool)>,
    known: HashMap<Bits, bool>,
}

/// The first bits of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Bits {
    is_v6: bool,
    /// From the highest on.
    bits: u128,
    length: u8,
}

impl Bits {
    fn of(address: IpAddr, length: u8) -> Self {
        let (is_v6, all) = match address {
            IpAddr::V4(address) => (false, u128::from(address.to_bits()) << 96),
            IpAddr::V6(address) => (true, address.to_bits()),
        };
        Self {
            is_v6,
            bits: all & mask(length),
            length,
        }
    }

    /// Returns whether `longer` begins with these.
    const fn begin(&self, longer: &Self) -> bool {
        self.is_v6 == longer.is_v6
            && self.length <= longer.length
            && longer.bits & mask(self.length) == self.bits
    }
}

/// The highest bits, so many.
const fn mask(length: u8) -> u128 {
    match 128_u32.checked_sub(length as u32) {
        Some(128) | None => 0,
        Some(rest) => u128::MAX << rest,
    }
}

impl Addresses {
    /// By this key.
    pub(crate) fn new(key: &Key) -> Self {
        let special = SPECIAL.iter().filter_map(|Special { range, is_kept }| {
            let range: IpNet = range.parse().ok()?;
            Some((Bits::of(range.addr(), range.prefix_len()), *is_kept))
        });
        Self {
            key: key.clone(),
            special: special.collect(),
            known: HashMap::new(),
        }
    }

    /// Returns the replacement of the address.
    pub(crate) fn address(&mut self, address: IpAddr) -> IpAddr {
        let width = if address.is_ipv4() { 32 } else { 128 };
        let mut new = Bits::of(address, width);
        for length in 0..width {
            let before = Bits::of(address, length);
            if self.changes(before) {
                new.bits ^= 1 << (127 - length);
            }
        }
        if new.is_v6 {
            Ipv6Addr::from_bits(new.bits).into()
        } else {
            Ipv4Addr::from_bits((new.bits >> 96) as u32).into()
        }
    }

    /// Returns whether the bit behind these is another one then.
    fn changes(&mut self, before: Bits) -> bool {
        if let Some(known) = self.known.get(&before) {
            return *known;
        }
        // On the way to a special range, and in one that is kept.
        let stays = self.special.iter().any(|(special, is_kept)| {
            (before.length < special.length && before.begin(special))
                || (*is_kept && special.begin(&before))
        });
        let changes = !stays && {
            let mut bytes = before.bits.to_be_bytes().to_vec();
            bytes.extend([u8::from(before.is_v6), before.length]);
            self.key.bytes("prefix", &bytes)[0] & 1 == 1
        };
        self.known.insert(before, changes);
        changes
    }

    /// Returns the replacement of the range: its address is the first one if the range's was.
    pub(crate) fn range(&mut self, range: IpNet) -> IpNet {
        let is_first = range.trunc() == range;
        let new = IpNet::new(self.address(range.addr()), range.prefix_len()).unwrap_or(range);
        if is_first { new.trunc() } else { new }
    }

    /// Returns the replacement of the link address: one that is locally administered. That of no interface stays.
    pub(crate) fn link(&self, link: LinkAddress) -> LinkAddress {
        if link.0 == [0; 6] || link.0[0] & 1 == 1 {
            return link;
        }
        let bytes = self.key.bytes("link", &link.0);
        LinkAddress([2, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn common(a: IpAddr, b: IpAddr) -> u32 {
        (Bits::of(a, 128).bits ^ Bits::of(b, 128).bits).leading_zeros()
    }

    proptest! {
        #[test]
        fn addresses_begin_alike_as_they_did(a: u32, b: u32, shift in 0_u32..32, key: [u8; 32]) {
            let mut addresses = Addresses::new(&Key::of(key));
            let (a, b) = (Ipv4Addr::from(a).into(), Ipv4Addr::from(a ^ b >> shift).into());
            let (new_a, new_b) = (addresses.address(a), addresses.address(b));
            prop_assert_eq!(common(a, b), common(new_a, new_b));
        }

        #[test]
        fn addresses_of_ipv6_begin_alike_as_they_did(a: u128, b: u128, shift in 0_u32..128, key: [u8; 32]) {
            let mut addresses = Addresses::new(&Key::of(key));
            let (a, b) = (Ipv6Addr::from(a).into(), Ipv6Addr::from(a ^ b >> shift).into());
            let (new_a, new_b) = (addresses.address(a), addresses.address(b));
            prop_assert_eq!(common(a, b), common(new_a, new_b));
        }

        #[test]
        fn special_ranges_are_neither_left_nor_entered(a: u32, b: u128, key: [u8; 32]) {
            let mut addresses = Addresses::new(&Key::of(key));
            for address in [IpAddr::from(Ipv4Addr::from(a)), IpAddr::from(Ipv6Addr::from(b))] {
                let new = addresses.address(address);
                for Special { range, is_kept } in &SPECIAL {
                    let range: IpNet = range.parse().unwrap();
                    prop_assert_eq!(range.contains(&address), range.contains(&new), "{} {}", address, new);
                    prop_assert!(!(*is_kept && range.contains(&address)) || address == new);
                }
            }
        }
    }

    #[test]
    fn another_key_gives_others() {
        let address = "10.1.2.3".parse().unwrap();
        let new = |byte| Addresses::new(&Key::of([byte; 32])).address(address);
        assert_ne!(new(1), new(2));
        assert_ne!(new(1), address);
    }

    #[test]
    fn a_range_stays_one() {
        let mut addresses = Addresses::new(&Key::of([7; 32]));
        let range = addresses.range("10.96.0.0/12".parse().unwrap());
        assert_eq!(range.trunc(), range);
        assert!(range.contains(&addresses.address("10.96.0.10".parse().unwrap())));
        let own = addresses.range("10.1.1.1/24".parse().unwrap());
        assert_eq!(own.addr(), addresses.address("10.1.1.1".parse().unwrap()));
    }
}
