//! One value out of a fixed list, if it is one.

use crate::{error::Fault, named::FromName, unchecked::text::Text};

/// A value out of a fixed list, or what was given in its place: a name in JSON, a number in a
/// message.
#[derive(Debug, Clone)]
pub enum Choice<'a, T> {
    /// One of the list.
    Known(T),
    /// None of it.
    Unknown(Text<'a>),
}

impl<'a, T: FromName> From<Text<'a>> for Choice<'a, T> {
    fn from(text: Text<'a>) -> Self {
        match T::from_name(&text) {
            Some(value) => Self::Known(value),
            None => Self::Unknown(text),
        }
    }
}

impl<T: FromName> Choice<'_, T> {
    /// The value.
    ///
    /// # Errors
    ///
    /// The value is unknown: the error holds it and the expected ones.
    pub(crate) fn known(self) -> Result<T, Fault> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Unknown(text) => Err(Fault::UnknownValue {
                found: text.to_string(),
                expected: T::EXPECTED,
            }),
        }
    }
}
