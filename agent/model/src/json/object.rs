//! Values that are written as JSON objects, alone, in lists and under names.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, value::MapAccessDeserializer},
};
use serde_json::Value;

use crate::unchecked::{service::Entries, text::Text};

/// A value that is written as a JSON object and in no other way. By itself a derived struct would
/// accept an array of its fields too, and misread a misplaced list.
pub(super) trait FromFields<'de>: Sized {
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error>;
}

/// Reads types out of the fields of their shapes, which serde derives.
macro_rules! from_fields_as {
    ($($object:ident as $shape:ident,)*) => {
        $(impl<'de> FromFields<'de> for $object<'de> {
            fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
                $shape::deserialize(fields)
            }
        })*
    };
}
pub(super) use from_fields_as;

/// A `T` out of a JSON object.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: FromFields<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: FromFields<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::from_fields(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Visitor(PhantomData))
    }
}

/// A list of `T`s, each out of a JSON object.
struct Objects<T>(Vec<T>);

impl<'de, T: FromFields<'de>> Deserialize<'de> for Objects<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: FromFields<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Objects<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut objects = Vec::new();
                while let Some(Object(object)) = list.next_element()? {
                    objects.push(object);
                }
                Ok(Objects(objects))
            }
        }

        deserializer.deserialize_seq(Visitor(PhantomData))
    }
}

/// The entries of a JSON object in their order, each made by `into` of what stands in JSON.
struct EntriesVisitor<W, V> {
    into: fn(W) -> V,
}

impl<'de, W: Deserialize<'de>, V> de::Visitor<'de> for EntriesVisitor<W, V> {
    type Value = Entries<'de, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((name, value)) = map.next_entry()? {
            entries.push((name, (self.into)(value)));
        }
        Ok(entries)
    }
}

pub(super) fn object<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(object)| object)
}

pub(super) fn optional_object<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let object = Option::deserialize(deserializer)?;
    Ok(object.map(|Object(object)| object))
}

/// An object that is handed on as it is, as text: equal ones are equal texts.
pub(super) fn passed_on<'de, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Text<'a>>, D::Error> {
    let object = Option::<serde_json::Map<String, Value>>::deserialize(deserializer)?;
    Ok(object.map(|object| Value::Object(object).to_string().into()))
}

pub(super) fn objects<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Objects::deserialize(deserializer).map(|Objects(objects)| objects)
}

pub(super) fn optional_objects<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let objects = Option::deserialize(deserializer)?;
    Ok(objects.map(|Objects(objects)| objects))
}

pub(super) fn named_objects<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<Entries<'de, T>, D::Error> {
    deserializer.deserialize_map(EntriesVisitor {
        into: |Object(object)| object,
    })
}

/// An object of texts.
pub(super) fn named_texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Entries<'de, Text<'de>>, D::Error> {
    deserializer.deserialize_map(EntriesVisitor { into: |text| text })
}

/// An object of lists of texts; what is null was not given.
pub(super) fn optional_entries<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Entries<'de, Vec<Text<'de>>>>, D::Error> {
    struct Lists<'a>(Entries<'a, Vec<Text<'a>>>);

    impl<'de> Deserialize<'de> for Lists<'de> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let visitor = EntriesVisitor { into: |list| list };
            deserializer.deserialize_map(visitor).map(Self)
        }
    }

    let lists = Option::deserialize(deserializer)?;
    Ok(lists.map(|Lists(entries)| entries))
}

pub(super) fn named_lists<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<Entries<'de, Vec<T>>, D::Error> {
    deserializer.deserialize_map(EntriesVisitor {
        into: |Objects(objects)| objects,
    })
}
