//! Ranges of addresses.

use std::net::IpAddr;

use ipnet::IpNet;

/// Returns the range of a text: ADDRESS/LENGTH.
///
/// # Errors
///
/// It is none; for an address without a length the error names what is missing.
pub(crate) fn cidr(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| match text.parse::<IpAddr>() {
        Ok(address) => {
            let (some, one) = if address.is_ipv4() {
                (24, 32)
            } else {
                (64, 128)
            };
            format!(
                "the length of the prefix is missing: {address}/{some}, say, or {address}/{one} for this \
                 address alone"
            )
        }
        Err(_) => "not of the form ADDRESS/LENGTH, as in 10.1.1.0/24".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_length_is_told_what_is_missing() {
        assert!(cidr("10.1.1.0/24").is_ok());
        for (text, words) in [
            (
                "10.1.1.0",
                "the length of the prefix is missing: 10.1.1.0/24",
            ),
            ("fd00::", "fd00::/128 for this address alone"),
            ("web", "not of the form ADDRESS/LENGTH"),
            ("10.1.1.0/33", "not of the form ADDRESS/LENGTH"),
        ] {
            let error = cidr(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
