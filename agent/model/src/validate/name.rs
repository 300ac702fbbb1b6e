//! Names of services and interfaces.

use std::{collections::BTreeSet, str::FromStr};

use glob::{Pattern, PatternError};

use crate::{
    error::{EventError, Fault},
    interface_pattern::InterfacePattern,
    unchecked::text::Text,
};

/// IFNAMSIZ of linux/if.h, less the closing zero.
const INTERFACE_NAME_MAX: usize = 15;

/// The text, if it can be a name: not empty, nothing that would make a listing ambiguous.
pub(super) fn name(text: &str) -> Result<&str, Fault> {
    if text.is_empty() {
        return Err(Fault::EmptyName);
    }
    if text.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) {
        return Err(Fault::BadName(text.to_owned()));
    }
    Ok(text)
}

/// A name, or a pattern with `*`, `?` or `[...]`, or `auto`.
impl FromStr for InterfacePattern {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let text = name(text)?;
        if text == Self::AUTO {
            return Ok(Self::Auto);
        }
        if text.contains(['*', '?', '[']) {
            let bad = |PatternError { msg: reason, .. }| Fault::BadPattern {
                pattern: text.to_owned(),
                reason,
            };
            return Pattern::new(text).map(Self::Names).map_err(bad);
        }
        if text.len() > INTERFACE_NAME_MAX {
            return Err(Fault::LongInterfaceName(text.to_owned()));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

/// The patterns of a list of interfaces in the field `field`, the first of which is `field[first]`;
/// one that is listed twice counts once.
pub(super) fn interfaces(
    list: &[Text<'_>],
    field: &str,
    first: usize,
) -> Result<BTreeSet<InterfacePattern>, EventError> {
    list.iter()
        .enumerate()
        .map(|(index, text)| {
            InterfacePattern::from_str(text).map_err(|fault| {
                EventError::new(fault).within(format_args!("{field}[{}]", first + index))
            })
        })
        .collect()
}
