//! The definition of our group's ExternalWorkloads, held against what is read of them.

use std::{fs, path::Path};

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{custom::CustomKind, external_workload::Group, external_workload_spec::Spec};

/// The definition as the manifest has it.
fn definition() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/definitions/external-workloads.yaml");
    serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// The schema of `spec` or `status` as the manifest has it.
pub(crate) fn manifest(part: &str) -> Value {
    let version = &definition()["spec"]["versions"][0];
    let schema = version["schema"]["openAPIV3Schema"]["properties"][part].clone();
    assert!(schema.is_object(), "{part}");
    schema
}

/// The same by the types.
fn generated() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings
        .into_generator()
        .into_root_schema_for::<Spec>()
        .to_value()
}

/// A schema without its words, and written in one way: a field that may be left out is no field that may be
/// null, and Kubernetes has no unsigned numbers.
fn plain(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else {
        return schema;
    };
    for word in ["title", "description", "x-kubernetes-validations"] {
        // A property may be called so, too.
        if fields.get(word).is_some_and(|value| !value.is_object()) {
            fields.remove(word);
        }
    }
    if let Some(Value::Array(choices)) = fields.remove("anyOf") {
        let choice = choices.into_iter().find(|one| one["type"] != "null");
        if let Some(Value::Object(choice)) = choice {
            fields.extend(choice);
            return plain(Value::Object(fields));
        }
    }
    if let Some(Value::Array(types)) = fields.get("type").cloned() {
        let mut types = types.into_iter().filter(|name| name != "null");
        fields["type"] = types.next().unwrap();
    }
    if let Some(format) = fields.get_mut("format")
        && (*format == "uint16" || *format == "uint32")
    {
        *format = json!("int32");
    }
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        required.sort_by_key(Value::to_string);
    }
    let fields = fields.into_iter();
    Value::Object(fields.map(|(name, value)| (name, plain(value))).collect())
}

#[test]
fn the_definition_says_what_is_read() {
    let (found, expected) = (plain(manifest("spec")), plain(generated()));
    assert_eq!(
        found, expected,
        "\nthe manifest has {found:#}\nthe types have {expected:#}"
    );
}

#[test]
fn the_definition_has_the_names_that_are_asked_for() {
    let definition = definition();
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    assert_eq!(
        text(&definition["metadata"]["name"]),
        CustomKind::ExternalWorkload.definition()
    );
    assert_eq!(
        CustomKind::ExternalWorkload.definition(),
        format!("{plural}.{group}")
    );
    let [version] = &spec["versions"].as_array().unwrap()[..] else {
        panic!("one version: {spec}");
    };
    let api_version = format!("{group}/{}", text(&version["name"]));
    assert_eq!(api_version, Group::Shunt.api_version());
    assert_eq!(spec["names"]["kind"], "ExternalWorkload");
    assert_eq!(spec["scope"], "Namespaced");
    // A status is written by a path of its own.
    assert_eq!(version["subresources"], json!({ "status": {} }));
    // What is listed is there.
    for column in version["additionalPrinterColumns"].as_array().unwrap() {
        let path = text(&column["jsonPath"]);
        let fields: Vec<&str> = path
            .split(['.', '['])
            .filter(|one| !one.is_empty())
            .collect();
        let (part, field) = (fields[0], fields[1]);
        assert!(
            part == "metadata" || manifest(part)["properties"][field].is_object(),
            "{path}"
        );
    }
}
