//! Counters of a namespace's stack.

use std::{fs, iter};

use anyhow::{Context as _, Result};

use crate::namespace::Namespace;

/// Two lines a protocol: the names, and the values in their order.
const IN_PAIRS: [&str; 2] = ["snmp", "netstat"];

/// A name and its value a line.
const IN_LINES: &str = "snmp6";

impl Namespace {
    /// The counter that nstat(8) calls so: `TcpExtTCPSynRetrans`, `IpForwDatagrams`, `Udp6InDatagrams`.
    ///
    /// # Errors
    ///
    /// If there is none, or the namespace cannot be asked.
    pub fn counter(&self, name: &str) -> Result<u64> {
        let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        let found = self.enter(|| -> Result<_> {
            for file in IN_PAIRS {
                if let Some(value) = in_pairs(&read(file)?, name) {
                    return Ok(Some(value));
                }
            }
            Ok(in_lines(&read(IN_LINES)?, name))
        });
        found?.with_context(|| format!("{} has no counter {name}", self.name()))
    }

    /// Returns the number of SYNs that it has sent again: the mark of a packet that was lost.
    ///
    /// # Errors
    ///
    /// As [`Self::counter`].
    pub fn repeated_syns(&self) -> Result<u64> {
        self.counter("TcpExtTCPSynRetrans")
    }
}

fn in_pairs(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let mut pairs = iter::from_fn(|| lines.next().zip(lines.next()));
    pairs.find_map(|(names, values)| {
        let (protocol, names) = names.split_once(": ")?;
        let (_, values) = values.split_once(": ")?;
        let name = name.strip_prefix(protocol)?;
        let mut both = names.split(' ').zip(values.split(' '));
        let (_, value) = both.find(|(any, _)| *any == name)?;
        value.parse().ok()
    })
}

fn in_lines(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (any, value) = line.split_once(char::is_whitespace)?;
        let value = (any == name).then_some(value)?;
        value.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_the_names_that_nstat_has_for_them() {
        let pairs = "Ip: Forwarding ForwDatagrams\nIp: 1 23\nUdp: InDatagrams\nUdp: 4\n";
        for (name, expected) in [
            ("IpForwDatagrams", Some(23)),
            ("UdpInDatagrams", Some(4)),
            ("UdpForwDatagrams", None),
            ("ForwDatagrams", None),
        ] {
            assert_eq!(in_pairs(pairs, name), expected, "{name}");
        }
        let lines = "Ip6InReceives                   \t56\nUdp6InDatagrams\t7\n";
        for (name, expected) in [
            ("Ip6InReceives", Some(56)),
            ("Udp6InDatagrams", Some(7)),
            ("Udp6In", None),
        ] {
            assert_eq!(in_lines(lines, name), expected, "{name}");
        }
    }
}
