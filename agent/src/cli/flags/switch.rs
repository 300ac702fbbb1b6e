//! Boolean flags as Go's programs have them, kube-proxy among them.

use std::{fmt, str::FromStr};

use clap::Arg;

/// A flag that is on or off: `--flag`, `--flag=true` or `--flag=false`, and whatever else Go's
/// `strconv.ParseBool` takes. A value stands behind `=`, so that the next word is none.
///
/// Its arguments' struct has `#[command(mut_arg(ID, Switch::flag))]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Switch(bool);

impl Switch {
    /// On.
    pub(crate) const ON: Self = Self(true);

    /// Returns whether it is on.
    pub(crate) const fn is_on(self) -> bool {
        self.0
    }

    /// Has an argument be on without a value, and take one behind `=`.
    pub(crate) fn flag(arg: Arg) -> Arg {
        arg.num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
    }
}

impl From<bool> for Switch {
    fn from(is_on: bool) -> Self {
        Self(is_on)
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Switch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Self(false)),
            _ => Err("must be true or false"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[expect(clippy::duplicated_attributes, reason = "both are switches")]
    #[command(mut_arg("guard", Switch::flag), mut_arg("echo", Switch::flag))]
    struct Flags {
        #[arg(long)]
        guard: Option<Switch>,

        #[arg(long, default_value_t = Switch::ON)]
        echo: Switch,

        rest: Vec<String>,
    }

    fn parsed(arguments: &[&str]) -> Result<(Option<bool>, bool, Vec<String>), String> {
        let arguments = ["agent"].iter().chain(arguments);
        let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let Flags { guard, echo, rest } = flags;
        Ok((guard.map(Switch::is_on), echo.is_on(), rest))
    }

    #[test]
    fn a_switch_is_on_by_its_name_and_takes_a_value_behind_an_equals_sign_alone() {
        for (arguments, guard, echo, rest) in [
            (&[][..], None, true, &[][..]),
            (&["--guard"], Some(true), true, &[]),
            (&["--guard=false", "--echo=F"], Some(false), false, &[]),
            (&["--guard=1", "--echo=true"], Some(true), true, &[]),
            (&["--guard", "false"], Some(true), true, &["false"]),
        ] {
            let rest = rest.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(parsed(arguments), Ok((guard, echo, rest)), "{arguments:?}");
        }
        for arguments in [["--guard=yes"], ["--guard="], ["--echo=2"]] {
            let error = parsed(&arguments).unwrap_err();
            assert!(error.contains("--"), "{error}");
        }
    }
}
