//! Parts of an object that are left out where they cannot be read.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// Reads a list. Elements that cannot be read are left out: the second list has the reasons, with the index of each.
///
/// # Errors
///
/// If it is neither a list nor `null`.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Lenient<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let texts = Option::<Vec<Box<RawValue>>>::deserialize(deserializer)?;
    let mut list = Lenient::default();
    for (index, text) in texts.unwrap_or_default().iter().enumerate() {
        match serde_json::from_str(text.get()) {
            Ok(element) => list.elements.push(element),
            Err(error) => list
                .bad
                .push(format!("[{index}]: {}", without_place(&error)).into()),
        }
    }
    Ok(list)
}

/// Readable elements of a list, and the errors of the others.
#[derive(Debug, Clone)]
pub(super) struct Lenient<T> {
    pub(super) elements: Vec<T>,
    pub(super) bad: Vec<Box<str>>,
}

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self {
            elements: Vec::new(),
            bad: Vec::new(),
        }
    }
}

/// Returns the error without line and column: the text as the server has sent it is never shown.
pub(crate) fn without_place(error: &impl ToString) -> String {
    let text = error.to_string();
    let words = text.split(" at line ").next();
    words.unwrap_or_default().to_owned()
}

/// Reads a value that is none where it cannot be read.
///
/// # Errors
///
/// If it is no JSON.
pub(crate) fn option<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let text = Box::<RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(text.get()).unwrap_or_default())
}
