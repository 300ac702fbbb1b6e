//! Go writes an empty list as `null`.

use serde::{Deserialize, Deserializer};

/// The value, or its default where `null` stands.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
