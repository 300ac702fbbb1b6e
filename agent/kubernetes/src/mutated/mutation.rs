//! Changes of valid objects.

use std::{env, iter};

use proptest::{collection::vec, option, prelude::*, sample::Index};
use serde_json::{Value, json};

use super::examples::KINDS;

/// Number of objects of a test, and of its full form: `cargo xtask test --long`.
const OBJECTS: u32 = 10_000;
const MANY_OBJECTS: u32 = 1_000_000;

/// Number of objects that pass through the watches together.
pub(crate) const TOGETHER: u32 = 250;

/// Stands in an object in place of lists that are too deep for a [`Value`].
const DEEP: &str = "@deep";

/// An object of some kind, and what is changed in it.
#[derive(Debug, Clone)]
pub(crate) struct Mutant {
    /// Name of its kind.
    pub(crate) kind: &'static str,
    /// Number by which its name and addresses differ from others.
    pub(crate) number: u8,
    changes: Vec<(Index, Change)>,
    last: Option<(Index, Growth)>,
    /// True if the watch reports that it is gone.
    pub(crate) is_deleted: bool,
}

/// A change of the value at some place.
#[derive(Debug, Clone)]
enum Change {
    /// This stands there.
    Replace(Value),
    /// Nothing stands there.
    Remove,
    /// The value of this place stands there, too.
    Copy(Index),
}

/// A change that makes an object large.
#[derive(Debug, Clone, Copy)]
enum Growth {
    /// A list has so many times its elements.
    Repeat(usize),
    /// So many lists in each other stand there.
    Lists(usize),
    /// So many objects in each other stand there.
    Objects(usize),
}

/// Returns settings with which [`mutants`] makes as many objects as the test has time for.
pub(crate) fn settings() -> ProptestConfig {
    let is_long = env::var_os("SHUNT_LONG").is_some_and(|value| !value.is_empty() && value != "0");
    let objects = if is_long { MANY_OBJECTS } else { OBJECTS };
    ProptestConfig {
        max_shrink_iters: 1_000,
        ..ProptestConfig::with_cases(objects / TOGETHER)
    }
}

/// Any objects of all kinds.
pub(crate) fn mutants() -> impl Strategy<Value = Vec<Mutant>> {
    let change = prop_oneof![
        6 => any_value().prop_map(Change::Replace),
        2 => Just(Change::Remove),
        2 => any::<Index>().prop_map(Change::Copy),
    ];
    let growth = prop_oneof![
        3 => (2..2_000_usize).prop_map(Growth::Repeat),
        1 => (100..50_000_usize).prop_map(Growth::Lists),
        1 => (100..50_000_usize).prop_map(Growth::Objects),
    ];
    let mutant = (
        prop::sample::select(KINDS.as_slice()),
        0..8_u8,
        vec((any::<Index>(), change), 0..4),
        option::weighted(0.005, (any::<Index>(), growth)),
        prop::bool::weighted(0.2),
    );
    let mutant = mutant.prop_map(|(kind, number, changes, last, is_deleted)| Mutant {
        kind,
        number,
        changes,
        last,
        is_deleted,
    });
    vec(mutant, TOGETHER as usize)
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(odd_values()),
        any::<i64>().prop_map(|number| json!(number)),
        (0..100_000).prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        "[ -~]{0,12}".prop_map(|text| json!(text)),
        any::<[u8; 4]>().prop_map(|[a, b, c, d]| json!(format!("{a}.{b}.{c}.{d}"))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let lists = vec(inner.clone(), 0..4).prop_map(Value::Array);
        let keys = prop::sample::select(&["name", "port", "ip", "weight", ""][..]);
        let objects = vec((keys, inner), 0..4);
        let objects = objects.prop_map(|pairs| {
            let pairs = pairs.into_iter();
            Value::Object(pairs.map(|(key, value)| (key.to_owned(), value)).collect())
        });
        prop_oneof![lists, objects]
    })
}

/// Returns values of all types, at the ends of their ranges.
pub(crate) fn odd_values() -> Vec<Value> {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(0.5),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("\u{0}\u{10ffff}"),
        json!("x".repeat(10_000)),
        json!([]),
        json!([null, 1, "a", {}]),
        json!({}),
        json!({ "": { "": [] } }),
        deep,
    ]
}

/// Returns the places of all values in this one (RFC 6901).
pub(crate) fn places(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    add_places(value, "", &mut found);
    found
}

fn add_places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                add_places(value, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                add_places(value, &format!("{at}/{key}"), found);
            }
        }
        _ => {}
    }
}

impl Mutant {
    /// Returns the object as JSON, after these changes of a valid one.
    pub(crate) fn text(&self, mut object: Value) -> String {
        let Self { changes, last, .. } = self;
        for (place, change) in changes {
            let places = places(&object);
            let at = chosen(*place, &places);
            match change {
                Change::Replace(value) => put(&mut object, at, value.clone()),
                Change::Remove => remove(&mut object, at),
                Change::Copy(from) => {
                    let value = object.pointer(chosen(*from, &places)).cloned();
                    put(&mut object, at, value.unwrap_or_default());
                }
            }
        }
        let Some((place, growth)) = last else {
            return object.to_string();
        };
        let places = places(&object);
        let nested = |open: &str, close: &str, depth: usize| {
            let text = iter::repeat_n(open, depth).chain(["1"]);
            text.chain(iter::repeat_n(close, depth)).collect::<String>()
        };
        let deep = match *growth {
            Growth::Repeat(times) => {
                let is_list = |at: &&String| object.pointer(at).is_some_and(Value::is_array);
                let lists: Vec<String> = places.iter().filter(is_list).cloned().collect();
                if !lists.is_empty()
                    && let Some(Value::Array(list)) = object.pointer_mut(chosen(*place, &lists))
                {
                    *list = iter::repeat_n(&*list, times).flatten().cloned().collect();
                }
                return object.to_string();
            }
            Growth::Lists(depth) => nested("[", "]", depth),
            Growth::Objects(depth) => nested("{\"all\":", "}", depth),
        };
        put(&mut object, chosen(*place, &places), json!(DEEP));
        object
            .to_string()
            .replacen(&json!(DEEP).to_string(), &deep, 1)
    }
}

fn chosen(index: Index, places: &[String]) -> &str {
    &places[index.index(places.len())]
}

fn put(object: &mut Value, at: &str, value: Value) {
    if let Some(place) = object.pointer_mut(at) {
        *place = value;
    }
}

fn remove(object: &mut Value, at: &str) {
    let Some((parent, key)) = at.rsplit_once('/') else {
        return;
    };
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.remove(&key.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(list)) => {
            if let Ok(index) = key.parse::<usize>() {
                list.remove(index);
            }
        }
        _ => {}
    }
}
