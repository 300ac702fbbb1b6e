//! Patterns of interfaces.

use std::fmt;

use glob::Pattern;

/// The name of an interface, or a pattern of interfaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterfacePattern {
    /// The one of this name, whether it is there yet or not.
    Name(String),
    /// The interfaces whose names match, `veth*` for instance.
    Names(Pattern),
    /// The interfaces by which packets of clients can come in; the datapath chooses them.
    Auto,
}

impl InterfacePattern {
    /// The text for [`Self::Auto`].
    pub const AUTO: &str = "auto";

    /// Returns whether an interface of this name is meant by it. [`Self::Auto`] does not go by names.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(known) => known == name,
            Self::Names(pattern) => pattern.matches(name),
            Self::Auto => false,
        }
    }

    /// The name, if it is one.
    pub const fn name(&self) -> Option<&String> {
        match self {
            Self::Name(name) => Some(name),
            Self::Names(_) | Self::Auto => None,
        }
    }
}

impl fmt::Display for InterfacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Names(pattern) => f.write_str(pattern.as_str()),
            Self::Auto => f.write_str(Self::AUTO),
        }
    }
}
