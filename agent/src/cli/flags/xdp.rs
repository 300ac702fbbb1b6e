//! The forwarding of packets in transit where the driver has them.

use clap::{Args, ValueEnum};
use shunt_datapath::{XdpMode, XdpOptions};
use shunt_model::InterfacePattern;

use crate::cli::flags::interfaces::by_name;

/// Place of the XDP program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Mode {
    /// Nowhere
    #[default]
    Off,
    /// In the driver where the driver can, else before the stack
    Auto,
    /// In the driver or not at all
    Native,
    /// Before the stack, whatever the driver can
    Generic,
}

/// Forwarding of packets in transit past TC.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "XDP")]
pub(crate) struct XdpArgs {
    /// Forward packets between clients outside and backends on other nodes where the driver has
    /// them, by an XDP program on the uplinks, and what is dropped or rejected, drop or reject there
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    xdp: Mode,

    /// An uplink that gets the XDP program, by name or pattern; may be given several times
    /// [default: the interfaces that default routes lead to]
    #[arg(long = "xdp-interface", value_name = "PATTERN", value_parser = by_name)]
    xdp_interfaces: Vec<InterfacePattern>,
}

impl XdpArgs {
    /// Returns the mode of the program, and its interfaces.
    pub(crate) fn options(self) -> XdpOptions {
        let Self {
            xdp,
            xdp_interfaces,
        } = self;
        XdpOptions {
            mode: match xdp {
                Mode::Off => XdpMode::Off,
                Mode::Auto => XdpMode::Auto,
                Mode::Native => XdpMode::Native,
                Mode::Generic => XdpMode::Generic,
            },
            interfaces: xdp_interfaces.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        xdp: XdpArgs,
    }

    fn parse(arguments: &[&str]) -> Result<XdpOptions, String> {
        let arguments = ["agent"].iter().chain(arguments);
        Flags::try_parse_from(arguments)
            .map(|flags| flags.xdp.options())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn xdp_is_off_unless_asked_for_and_takes_patterns_of_names() {
        let options = parse(&[]).unwrap();
        assert!(!options.is_on() && options.interfaces.is_empty());
        let options = parse(&["--xdp=auto", "--xdp-interface=bond*"]).unwrap();
        assert_eq!(options.mode, XdpMode::Auto);
        assert_eq!(options.interfaces.len(), 1);
        let error = parse(&["--xdp=native", "--xdp-interface=auto"]).unwrap_err();
        assert!(error.contains("auto is no name"), "{error}");
        parse(&["--xdp=hardware"]).unwrap_err();
    }
}
