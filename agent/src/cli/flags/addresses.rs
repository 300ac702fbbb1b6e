//! Flags that take an address of each family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Result, bail};

/// At most one address of each family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Addresses {
    pub(crate) v4: Option<Ipv4Addr>,
    pub(crate) v6: Option<Ipv6Addr>,
}

impl Addresses {
    /// Returns the addresses that `flag` was given.
    ///
    /// # Errors
    ///
    /// Two of one family, or an IPv4 address in the form of an IPv6 one, which no packet carries.
    pub(crate) fn of(flag: &str, given: &[IpAddr]) -> Result<Self> {
        let mut addresses = Self::default();
        for address in given {
            let before: Option<IpAddr> = match *address {
                IpAddr::V4(v4) => addresses.v4.replace(v4).map(IpAddr::from),
                IpAddr::V6(v6) => {
                    if let Some(v4) = v6.to_ipv4_mapped() {
                        bail!("{flag}: {v6} is an IPv4-mapped address, write {v4}");
                    }
                    addresses.v6.replace(v6).map(IpAddr::from)
                }
            };
            if let Some(before) = before {
                bail!("{flag}: {before} and {address}, but it takes one address of each family");
            }
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[&str]) -> Result<Addresses, String> {
        let given: Vec<IpAddr> = given.iter().map(|text| text.parse().unwrap()).collect();
        Addresses::of("--snat-ip", &given).map_err(|error| error.to_string())
    }

    #[test]
    fn a_flag_takes_one_address_of_each_family() {
        let (v4, v6) = (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::LOCALHOST);
        for (given, v4, v6) in [
            (&[][..], None, None),
            (&["192.0.2.1"], Some(v4), None),
            (&["::1"], None, Some(v6)),
            (&["::1", "192.0.2.1"], Some(v4), Some(v6)),
        ] {
            assert_eq!(of(given), Ok(Addresses { v4, v6 }), "{given:?}");
        }
    }

    #[test]
    fn two_of_one_family_are_refused_by_name() {
        for (given, reason) in [
            (
                ["192.0.2.1", "192.0.2.2"],
                "--snat-ip: 192.0.2.1 and 192.0.2.2, but it takes one address of each family",
            ),
            (
                ["::1", "::2"],
                "--snat-ip: ::1 and ::2, but it takes one address of each family",
            ),
            (
                ["::1", "::ffff:192.0.2.1"],
                "--snat-ip: ::ffff:192.0.2.1 is an IPv4-mapped address, write 192.0.2.1",
            ),
        ] {
            assert_eq!(of(&given), Err(reason.to_owned()));
        }
    }
}
