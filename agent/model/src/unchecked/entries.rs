//! A JSON object whose keys are names.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de};

use crate::unchecked::text::Text;

/// The entries of a JSON object in their order. A map would forget that a name was given twice.
#[derive(Debug)]
pub struct Entries<'a, V>(pub Vec<(Text<'a>, V)>);

impl<V> Default for Entries<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Entries<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> de::Visitor<'de> for Visitor<V> {
            type Value = Entries<'de, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Visitor(PhantomData))
    }
}
