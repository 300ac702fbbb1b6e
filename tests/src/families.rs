//! The address families that this machine has.

use std::{path::Path, sync::LazyLock};

use anyhow::Result;

use crate::namespace::Namespace;

/// A file of every network namespace, unless the kernel was started without IPv6 (`ipv6.disable=1`).
const SETTINGS: &str = "/proc/sys/net/ipv6/conf/all/disable_ipv6";

/// Returns whether this machine has IPv6.
pub fn has_ipv6() -> bool {
    static HAS_IPV6: LazyLock<bool> = LazyLock::new(|| Path::new(SETTINGS).exists());
    *HAS_IPV6
}

impl Namespace {
    /// Configures as [`Self::configure`] does. Without IPv6, it leaves out the lines that name an IPv6 address.
    ///
    /// # Errors
    ///
    /// As [`Self::configure`].
    pub(crate) fn configure_families(&self, commands: &str) -> Result<()> {
        if has_ipv6() {
            self.configure(commands)
        } else {
            self.configure(&of_ipv4(commands))
        }
    }

    /// Writes a setting of IPv6, by its path below `/proc/sys/net/ipv6`; does nothing without IPv6.
    ///
    /// # Errors
    ///
    /// As [`Self::set`].
    pub(crate) fn set_ipv6(&self, setting: &str, value: &str) -> Result<()> {
        if has_ipv6() {
            self.set(&format!("net/ipv6/{setting}"), value)
        } else {
            Ok(())
        }
    }
}

/// Returns the commands that name no IPv6 address.
fn of_ipv4(commands: &str) -> String {
    let names_ipv6 = |line: &str| line.split(' ').any(|word| word.contains("::"));
    commands
        .split_inclusive('\n')
        .filter(|line| !names_ipv6(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_of_ipv6_are_left_out() {
        let commands = "link add eth0 type veth peer name eth0 netns shunt-1-0-node\n\
                        address add 10.1.1.254/32 dev eth0\n\
                        address add fd00:10:1:1::254/128 dev eth0 nodad\n\
                        route add ::/0 via fd00:10:1:1::254 dev eth0\n\
                        route add default via 10.1.1.254 dev eth0\n";
        assert_eq!(
            of_ipv4(commands),
            "link add eth0 type veth peer name eth0 netns shunt-1-0-node\n\
             address add 10.1.1.254/32 dev eth0\n\
             route add default via 10.1.1.254 dev eth0\n"
        );
    }
}
