use std::{collections::BTreeSet, fs, path::Path};

use super::*;
use crate::cli::config::v1alpha1::KubeProxyConfiguration;

/// A row of the document.
fn row(setting: &Setting) -> String {
    let Setting {
        flag,
        field,
        default,
        effect,
        ..
    } = setting;
    let code = |text: &str, before: &str| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            format!("`{before}{text}`")
        }
    };
    let (effect, why) = match effect {
        Honoured(why) => ("honoured", why),
        Ignored(why) => ("no effect", why),
        Refused(why) => ("refused", why),
    };
    let default = default.trim_matches('"');
    let default = if default.is_empty() { "-" } else { default };
    let (flag, field) = (code(flag, "--"), code(field, ""));
    format!("| {flag} | {field} | {default} | {effect} | {why} |")
}

#[test]
fn the_document_has_this_table() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kube-proxy-config.md");
    let document = fs::read_to_string(document).unwrap();
    let written: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| `") || line.starts_with("| - |"))
        .collect();
    let rows: Vec<String> = SETTINGS.iter().map(row).collect();
    assert_eq!(written, rows, "the table is to be:\n{}", rows.join("\n"));
}

#[test]
fn each_flag_and_each_field_has_one_row() {
    for of in [
        |setting: &Setting| setting.flag,
        |setting: &Setting| setting.field,
    ] {
        let names = SETTINGS.iter().map(of).filter(|name| !name.is_empty());
        let mut seen = BTreeSet::new();
        for name in names {
            assert!(seen.insert(name), "{name} twice");
        }
    }
}

/// The names of all fields that hold something, with dots between their parts.
fn fields(value: &serde_json::Value, path: &str, found: &mut BTreeSet<String>) {
    let serde_json::Value::Object(object) = value else {
        found.insert(path.to_owned());
        return;
    };
    if object.is_empty() {
        found.insert(path.to_owned());
    }
    for (name, value) in object {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        fields(value, &path, found);
    }
}

#[test]
fn every_default_fits_its_field() {
    for setting in SETTINGS {
        let value: serde_json::Value = serde_json::from_str(setting.default).unwrap();
        if setting.field.is_empty() {
            continue;
        }
        let whole = setting
            .field
            .rsplit('.')
            .fold(value, |value, part| serde_json::json!({ part: value }));
        let read: KubeProxyConfiguration = serde_json::from_value(whole)
            .unwrap_or_else(|error| panic!("{}: {error}", setting.field));
        let mut found = BTreeSet::new();
        fields(&serde_json::to_value(read).unwrap(), "", &mut found);
        assert_eq!(found, [setting.field.to_owned()].into());
    }
}
