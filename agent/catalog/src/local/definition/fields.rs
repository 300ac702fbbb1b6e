//! The fields of a JSON object, by whatever spelling Consul takes.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};
use shunt_runtime::GoDuration;
use thiserror::Error;

/// A definition cannot be read. Its text names the field, and what it has to be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Malformed(String);

impl Malformed {
    /// In these words.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The fields of an object that were not taken yet. Capital letters and underscores in names do not count:
/// `sidecar_service` is `SidecarService`, as Consul's API and its files have it. A field that is `null` is not
/// there.
#[derive(Debug)]
pub struct Fields {
    /// By their plain names, with the names as they were written.
    there: BTreeMap<String, (String, Value)>,
    /// Path of the object.
    path: String,
}

/// A name without what does not count in it.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|letter| *letter != '_');
    letters.flat_map(char::to_lowercase).collect()
}

impl Fields {
    /// Returns the fields of `value`, which is at `path`.
    ///
    /// # Errors
    ///
    /// The value is no object.
    pub fn of(value: Value, path: &str) -> Result<Self, Malformed> {
        let Value::Object(object) = value else {
            let subject = if path.is_empty() { "it" } else { path };
            return Err(Malformed(format!(
                "{subject} must be an object, not {}",
                kind(&value)
            )));
        };
        let there = object.into_iter().filter(|(_, value)| !value.is_null());
        Ok(Self {
            there: there
                .map(|(name, value)| (plain(&name), (name, value)))
                .collect(),
            path: path.to_owned(),
        })
    }

    /// Returns the path of a field of this name.
    fn at(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Takes a field, whatever it is.
    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        let (_, value) = self.there.remove(&plain(name))?;
        Some(value)
    }

    fn taken<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, Malformed> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        read(&value).map(Some).ok_or_else(|| {
            let (at, kind) = (self.at(name), kind(&value));
            Malformed(format!("{at} must be {expected}, not {kind}"))
        })
    }

    /// Takes a text; empty if there is none.
    ///
    /// # Errors
    ///
    /// The field is no text.
    pub fn text(&mut self, name: &str) -> Result<String, Malformed> {
        let text = self.taken(name, "a text", |value| value.as_str().map(str::to_owned))?;
        Ok(text.unwrap_or_default())
    }

    /// Takes a whole number.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<i64>, Malformed> {
        self.taken(name, "a whole number", Value::as_i64)
    }

    /// Takes a switch, which is off if it is not there.
    pub(crate) fn switch(&mut self, name: &str) -> Result<bool, Malformed> {
        let switch = self.taken(name, "true or false", Value::as_bool)?;
        Ok(switch.unwrap_or_default())
    }

    /// Takes a duration, in Go's form or in nanoseconds; nothing if there is none.
    pub(crate) fn duration(&mut self, name: &str) -> Result<Duration, Malformed> {
        let Some(value) = self.value(name) else {
            return Ok(Duration::ZERO);
        };
        let read = match &value {
            Value::String(text) if text.is_empty() => Some(GoDuration::default()),
            Value::String(text) => text.parse().ok(),
            value => value.as_i64().map(GoDuration::nanoseconds),
        };
        read.and_then(GoDuration::duration).ok_or_else(|| {
            let at = self.at(name);
            Malformed(format!(
                "{at} is no duration, as 10s or 1m30s would be: {value}"
            ))
        })
    }

    /// Takes a list of texts; empty if there is none.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<String>, Malformed> {
        let texts = self.taken(name, "a list of texts", |value| {
            let items = value.as_array()?.iter();
            items
                .map(|item| item.as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        })?;
        Ok(texts.unwrap_or_default())
    }

    /// Takes texts by name; none if there are none.
    pub(crate) fn pairs(&mut self, name: &str) -> Result<BTreeMap<String, String>, Malformed> {
        let pairs = self.taken(name, "an object of texts", |value| {
            let items = value.as_object()?.iter();
            items
                .map(|(name, item)| Some((name.clone(), item.as_str()?.to_owned())))
                .collect::<Option<BTreeMap<_, _>>>()
        })?;
        Ok(pairs.unwrap_or_default())
    }

    /// Takes an object whose names have a meaning elsewhere; empty if there is none.
    pub(crate) fn opaque(&mut self, name: &str) -> Result<Map<String, Value>, Malformed> {
        let object = self.taken(name, "an object", |value| value.as_object().cloned())?;
        Ok(object.unwrap_or_default())
    }

    /// Takes an object, with its fields.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Self>, Malformed> {
        let at = self.at(name);
        let value = self.value(name);
        value.map(|value| Self::of(value, &at)).transpose()
    }

    /// Takes a list of objects, each with its fields; empty if there is none.
    pub(crate) fn objects(&mut self, name: &str) -> Result<Vec<Self>, Malformed> {
        let at = self.at(name);
        let items = match self.value(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(value) => {
                let kind = kind(&value);
                return Err(Malformed(format!("{at} must be a list, not {kind}")));
            }
        };
        let items = items.into_iter().enumerate();
        items
            .map(|(place, item)| Self::of(item, &format!("{at}[{place}]")))
            .collect()
    }

    /// Rejects fields that were not taken.
    ///
    /// # Errors
    ///
    /// The first of them.
    pub fn finish(self) -> Result<(), Malformed> {
        match self.there.into_values().next() {
            None => Ok(()),
            // In Consul's words.
            Some((name, _)) if self.path.is_empty() => {
                Err(Malformed(format!("json: unknown field \"{name}\"")))
            }
            Some((name, _)) => {
                let path = self.path;
                Err(Malformed(format!(
                    "json: unknown field \"{name}\" in {path}"
                )))
            }
        }
    }
}

/// Returns the type of a value, in words.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        Fields::of(value, "Check").unwrap()
    }

    #[test]
    fn names_are_taken_in_any_spelling_and_nulls_are_nothing() {
        let mut there = fields(json!({ "check_id": "a", "NOTES": "b", "Tcp": null }));
        assert_eq!(there.text("CheckID").unwrap(), "a");
        assert_eq!(there.text("Notes").unwrap(), "b");
        assert_eq!(there.text("TCP").unwrap(), "");
        there.finish().unwrap();
    }

    #[test]
    fn durations_are_gos_or_nanoseconds() {
        for (value, expected) in [
            (json!("10s"), Some(Duration::from_secs(10))),
            (json!(10), Some(Duration::from_nanos(10))),
            (json!(""), Some(Duration::ZERO)),
            (json!("10"), None),
            (json!("-1s"), None),
            (json!([]), None),
        ] {
            let read = fields(json!({ "TTL": value })).duration("TTL");
            assert_eq!(read.ok(), expected, "{value}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let wrong = |value, read: fn(&mut Fields) -> Option<Malformed>| {
            read(&mut fields(value)).unwrap().to_string()
        };
        assert_eq!(
            wrong(json!({ "Notes": 1 }), |it| it.text("Notes").err()),
            "Check.Notes must be a text, not a number"
        );
        assert_eq!(
            wrong(json!({ "A": ["x", 1] }), |it| it.texts("A").err()),
            "Check.A must be a list of texts, not a list"
        );
        assert_eq!(
            wrong(json!({ "A": [1] }), |it| it.objects("A").err()),
            "Check.A[0] must be an object, not a number"
        );
        let unknown = fields(json!({ "Bogus": 1 })).finish().unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "json: unknown field \"Bogus\" in Check"
        );
        let unknown = Fields::of(json!({ "Bogus": 1 }), "").unwrap().finish();
        let text = unknown.unwrap_err().to_string();
        assert_eq!(text, "json: unknown field \"Bogus\"");
    }
}
