//! A configuration, field by field as the table lists them.

use serde_json::Value;

use crate::cli::config::{table::Setting, v1alpha1::KubeProxyConfiguration};

/// A configuration as JSON, to be looked at by the names of fields.
#[derive(Debug)]
pub(crate) struct Reading(Value);

impl Reading {
    /// Returns the reading of a configuration.
    pub(crate) fn of(configuration: &KubeProxyConfiguration) -> Self {
        Self(serde_json::to_value(configuration).unwrap_or_default())
    }

    /// Returns the value of a field, if that is something: neither nothing (`""`, 0, `0s`), which stands for the
    /// default in kube-proxy, nor the default itself.
    pub(crate) fn said(&self, setting: &Setting) -> Option<&Value> {
        let value = self.get(setting.field)?;
        let default: Value = serde_json::from_str(setting.default).unwrap_or_default();
        (!is_nothing(value) && *value != default).then_some(value)
    }

    fn get(&self, path: &str) -> Option<&Value> {
        if path.is_empty() {
            return None;
        }
        path.split('.')
            .try_fold(&self.0, |value, part| value.get(part))
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_so) => !is_so,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => matches!(text.as_str(), "" | "0s" | "0"),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
    }
}
