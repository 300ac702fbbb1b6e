//! Names of services and interfaces.

use std::collections::BTreeSet;

use crate::{
    error::{EventError, Fault},
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

/// The names of a list of interfaces in the field `field`, the first of which is `field[first]`;
/// one that is listed twice counts once.
pub(super) fn interfaces(
    list: &[Text<'_>],
    field: &str,
    first: usize,
) -> Result<BTreeSet<String>, EventError> {
    let interface = |text: &str| match name(text)? {
        name if name.len() > INTERFACE_NAME_MAX => Err(Fault::LongInterfaceName(name.to_owned())),
        name => Ok(name.to_owned()),
    };
    list.iter()
        .enumerate()
        .map(|(index, text)| {
            interface(text).map_err(|fault| {
                EventError::new(fault).within(format_args!("{field}[{}]", first + index))
            })
        })
        .collect()
}
