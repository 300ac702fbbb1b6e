//! The shape of an event in JSON: which field is of which type.
//!
//! The structs with `remote` have the fields of the unchecked form's; the compiler compares them.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, value::MapAccessDeserializer},
};

use crate::{
    endpoint::{EndpointState, Scope},
    forwarding::Forwarding,
    kind::EventKind,
    named::FromName,
    policy::TrafficPolicy,
    protocol::Protocol,
    selection::Selection,
    unchecked::{
        choice::Choice,
        service::{Backend, Entries, Id, Port, Service},
        text::Text,
    },
};

/// One line. All events share this one struct, so that a line is decoded in one pass whatever
/// the order of its fields (serde's tagged enums would buffer it first).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LineShape<'a> {
    #[serde(borrow)]
    pub(super) event: Choice<'a, EventKind>,
    pub(super) node_ips: Option<Vec<Text<'a>>>,
    #[serde(default, deserialize_with = "optional_objects")]
    pub(super) services: Option<Vec<Service<'a>>>,
    pub(super) frontend_ifs: Option<Vec<Text<'a>>>,
    pub(super) backend_ifs: Option<Vec<Text<'a>>>,
    pub(super) service_cidrs: Option<Vec<Text<'a>>>,
    #[serde(default, deserialize_with = "optional_entries")]
    pub(super) nodes: Option<Entries<'a, Vec<Text<'a>>>>,
    #[serde(default, deserialize_with = "optional_object")]
    pub(super) service: Option<Service<'a>>,
    #[serde(default, deserialize_with = "optional_object")]
    pub(super) id: Option<Id<'a>>,
    pub(super) old: Option<IgnoredAny>,
    pub(super) new: Option<Vec<Text<'a>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Id")]
struct IdShape<'a> {
    #[serde(borrow)]
    namespace: Text<'a>,
    name: Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Service")]
struct ServiceShape<'a> {
    #[serde(borrow, deserialize_with = "object")]
    id: Id<'a>,
    #[serde(default)]
    cluster_ips: Vec<Text<'a>>,
    #[serde(default)]
    external_ips: Vec<Text<'a>>,
    #[serde(default)]
    load_balancer_ips: Vec<Text<'a>>,
    #[serde(default)]
    load_balancer_source_ranges: Vec<Text<'a>>,
    traffic_policy: Option<Choice<'a, TrafficPolicy>>,
    internal_traffic_policy: Option<Choice<'a, TrafficPolicy>>,
    #[serde(default)]
    session_affinity_timeout: u32,
    selection: Option<Choice<'a, Selection>>,
    forwarding: Option<Choice<'a, Forwarding>>,
    #[serde(default, deserialize_with = "named_objects")]
    ports: Entries<'a, Port<'a>>,
    #[serde(default, deserialize_with = "named_lists")]
    backends: Entries<'a, Vec<Backend<'a>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Port")]
struct PortShape<'a> {
    #[serde(borrow)]
    protocol: Choice<'a, Protocol>,
    port: u16,
    #[serde(default)]
    node_port: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackendShape<'a> {
    #[serde(borrow)]
    ip: Text<'a>,
    port: u16,
    weight: Option<u32>,
    #[serde(default)]
    local: bool,
    #[serde(default, rename = "host_network")]
    _host_network: bool,
    state: Option<Choice<'a, EndpointState>>,
    #[serde(default)]
    serving: bool,
    node: Option<Text<'a>>,
    #[serde(rename = "zone")]
    _zone: Option<Text<'a>>,
    scopes: Option<Vec<Choice<'a, Scope>>>,
}

impl<'a> From<BackendShape<'a>> for Backend<'a> {
    fn from(shape: BackendShape<'a>) -> Self {
        let BackendShape {
            ip,
            port,
            weight,
            local,
            _host_network: _,
            state,
            serving,
            node,
            _zone: _,
            scopes,
        } = shape;
        Self {
            ip,
            port,
            weight,
            local,
            state,
            serving,
            node,
            scopes,
        }
    }
}

/// A value that is written as a JSON object and in no other way. By itself a derived struct would
/// accept an array of its fields too, and read a misplaced list as something that nobody wrote.
trait FromFields<'de>: Sized {
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error>;
}

impl<'de> FromFields<'de> for LineShape<'de> {
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
        Self::deserialize(fields)
    }
}

impl<'de> FromFields<'de> for Id<'de> {
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
        IdShape::deserialize(fields)
    }
}

impl<'de> FromFields<'de> for Service<'de> {
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
        ServiceShape::deserialize(fields)
    }
}

impl<'de> FromFields<'de> for Port<'de> {
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
        PortShape::deserialize(fields)
    }
}

impl<'de> FromFields<'de> for Backend<'de> {
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
        BackendShape::deserialize(fields).map(Self::from)
    }
}

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

fn object<'de, D: Deserializer<'de>, T: FromFields<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(object)| object)
}

fn optional_object<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let object = Option::deserialize(deserializer)?;
    Ok(object.map(|Object(object)| object))
}

fn optional_objects<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let objects = Option::deserialize(deserializer)?;
    Ok(objects.map(|Objects(objects)| objects))
}

fn named_objects<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<Entries<'de, T>, D::Error> {
    deserializer.deserialize_map(EntriesVisitor {
        into: |Object(object)| object,
    })
}

/// An object of lists of texts; what is null was not given.
fn optional_entries<'de, D: Deserializer<'de>>(
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

fn named_lists<'de, D: Deserializer<'de>, T: FromFields<'de>>(
    deserializer: D,
) -> Result<Entries<'de, Vec<T>>, D::Error> {
    deserializer.deserialize_map(EntriesVisitor {
        into: |Objects(objects)| objects,
    })
}

impl<'de: 'a, 'a, T: FromName> Deserialize<'de> for Choice<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(Self::from)
    }
}
