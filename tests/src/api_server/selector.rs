//! Label and field selectors.

use serde_json::Value;

/// The selection of objects that a client requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Absent(String),
    Present(String),
    Equal(String, String),
    NotEqual(String, String),
}

impl Requirement {
    fn of(text: &str) -> Self {
        if let Some((key, value)) = text.split_once("!=") {
            return Self::NotEqual(key.to_owned(), value.to_owned());
        }
        if let Some((key, value)) = text.split_once('=') {
            return Self::Equal(key.to_owned(), value.trim_start_matches('=').to_owned());
        }
        match text.strip_prefix('!') {
            Some(key) => Self::Absent(key.to_owned()),
            None => Self::Present(text.to_owned()),
        }
    }

    fn holds<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Self::Absent(key) => value(key).is_none(),
            Self::Present(key) => value(key).is_some(),
            Self::Equal(key, wanted) => value(key) == Some(wanted),
            Self::NotEqual(key, unwanted) => value(key) != Some(unwanted),
        }
    }
}

impl Selector {
    /// The selectors of a query, already decoded.
    pub(super) fn new(labels: Option<&str>, fields: Option<&str>) -> Self {
        let list = |text: Option<&str>| {
            let texts = text.into_iter().flat_map(|text| text.split(','));
            let texts = texts.filter(|text| !text.is_empty());
            texts.map(Requirement::of).collect()
        };
        Self {
            labels: list(labels),
            fields: list(fields),
        }
    }

    /// Returns it for the objects of one namespace, if one is given.
    pub(super) fn within(mut self, namespace: &str) -> Self {
        if !namespace.is_empty() {
            let own = Requirement::Equal("metadata.namespace".to_owned(), namespace.to_owned());
            self.fields.push(own);
        }
        self
    }

    /// Returns whether the object is asked for.
    pub(super) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let label = |key: &str| labels.get(key).and_then(Value::as_str);
        let field = |path: &str| {
            let mut value = object;
            for part in path.split('.') {
                value = value.get(part)?;
            }
            value.as_str()
        };
        self.labels.iter().all(|one| one.holds(label))
            && self.fields.iter().all(|one| one.holds(field))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_selected_as_the_api_does() {
        let object = json!({
            "metadata": { "name": "n", "labels": { "a/b": "", "c": "d" } },
            "spec": { "clusterIP": "10.96.0.1" },
        });
        for (labels, fields, expected) in [
            ("", "", true),
            ("!x,c=d", "metadata.name=n", true),
            ("!a/b", "", false),
            ("a/b", "", true),
            ("c=e", "", false),
            ("x=", "", false),
            ("", "spec.clusterIP!=None", true),
            ("", "spec.clusterIP!=10.96.0.1", false),
            ("", "spec.missing!=None", true),
        ] {
            let selector = Selector::new(Some(labels), Some(fields));
            assert_eq!(selector.matches(&object), expected, "{labels} {fields}");
        }
    }
}
