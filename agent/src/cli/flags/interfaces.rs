//! The interfaces that have the programs.

use std::collections::BTreeSet;

use clap::Args;
use shunt_model::InterfacePattern;

/// The interfaces where packets of clients are translated.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Interfaces")]
pub(crate) struct InterfaceArgs {
    /// An interface where clients are, besides those of the events; may be given several times: its
    /// name, a pattern such as 'veth*' for those that are there or come, or auto for all by which
    /// clients' packets can come in, which leaves out the loopback interface and mere ports of others
    #[arg(long = "interface", value_name = "PATTERN")]
    interfaces: Vec<InterfacePattern>,

    /// Interfaces that are left alone, by name or pattern, whatever else means them; may be given
    /// several times
    #[arg(long = "exclude-interface", value_name = "PATTERN", value_parser = by_name)]
    excluded: Vec<InterfacePattern>,
}

impl InterfaceArgs {
    /// Returns the interfaces that have the programs besides those of the events, and those that never have them.
    pub(crate) fn sets(self) -> (BTreeSet<InterfacePattern>, BTreeSet<InterfacePattern>) {
        let Self {
            interfaces,
            excluded,
        } = self;
        (
            interfaces.into_iter().collect(),
            excluded.into_iter().collect(),
        )
    }
}

/// A pattern that goes by names.
pub(super) fn by_name(text: &str) -> Result<InterfacePattern, String> {
    match text.parse() {
        Ok(InterfacePattern::Auto) => Err("auto is no name: say which ones".to_owned()),
        Ok(pattern) => Ok(pattern),
        Err(fault) => Err(fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        interfaces: InterfaceArgs,
    }

    fn parse(arguments: &[&str]) -> Result<InterfaceArgs, String> {
        let arguments = ["agent"].iter().chain(arguments);
        Flags::try_parse_from(arguments)
            .map(|flags| flags.interfaces)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_patterns_are_taken_and_what_is_neither_is_refused() {
        let (wanted, excluded) = parse(&[
            "--interface",
            "auto",
            "--interface=veth*",
            "--interface=eth0",
            "--exclude-interface=docker*",
        ])
        .unwrap()
        .sets();
        let text = |set: BTreeSet<InterfacePattern>| {
            set.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(text(wanted), ["eth0", "veth*", "auto"]);
        assert_eq!(text(excluded), ["docker*"]);
        for (flag, reason) in [
            ("--interface=eth[0", "invalid range pattern"),
            ("--interface=sixteen-bytes-xx", "longer than the 15 bytes"),
            ("--exclude-interface=auto", "auto is no name"),
            ("--exclude-interface=a**", "is not a pattern"),
        ] {
            let error = parse(&[flag]).unwrap_err();
            assert!(error.contains(reason), "{flag}: {error}");
        }
    }
}
