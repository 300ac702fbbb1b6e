//! JSON merge patches (RFC 7386).

use serde_json::{Value, json};

/// The target as the patch has it.
pub(super) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            if let Some(target) = target.as_object_mut() {
                target.remove(&name);
            }
        } else {
            merge(&mut target[name], value);
        }
    }
}
