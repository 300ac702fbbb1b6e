//! The definition of our group's ExternalWorkloads, held against what is read of them.

use std::{collections::BTreeSet, fs, path::Path};

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{
    external_workload::{ExternalWorkload, RawOwn},
    external_workload_spec::Spec,
};

/// The schema of `spec` as the manifest has it.
fn manifest() -> Value {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/controller/external-workloads.yaml");
    let definition: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let version = &definition["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
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
    let (found, expected) = (plain(manifest()), plain(generated()));
    assert_eq!(
        found, expected,
        "\nthe manifest has {found:#}\nthe types have {expected:#}"
    );
}

/// The rules in a schema, each with where it stands.
fn rules(schema: &Map<String, Value>, path: &str, found: &mut BTreeSet<(String, String)>) {
    for (name, value) in schema {
        match (name.as_str(), value) {
            ("x-kubernetes-validations", Value::Array(own)) => {
                for rule in own {
                    assert!(rule["message"].is_string(), "{rule}");
                    found.insert((path.to_owned(), rule["rule"].as_str().unwrap().to_owned()));
                }
            }
            ("properties", Value::Object(properties)) => {
                for (name, value) in properties {
                    rules(value.as_object().unwrap(), &format!("{path}.{name}"), found);
                }
            }
            ("items", Value::Object(items)) => rules(items, &format!("{path}[]"), found),
            _ => {}
        }
    }
}

fn read(spec: &Value) -> Result<(), Box<str>> {
    let object = json!({ "metadata": {}, "spec": spec });
    let raw: RawOwn = serde_json::from_value(object).unwrap();
    ExternalWorkload::from(raw).body.map(drop)
}

#[test]
fn each_rule_of_the_definition_is_enforced_by_the_controller_again() {
    let ips = |ips: &[&str]| {
        let ips: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        json!({ "workloadIPs": ips })
    };
    let ports = |ports: Value| json!({ "workloadIPs": [{ "ip": "192.0.2.1" }], "ports": ports });
    let probe =
        |probe: Value| json!({ "workloadIPs": [{ "ip": "192.0.2.1" }], "readinessProbe": probe });
    let (tcp, http) = (json!({ "port": 1 }), json!({ "port": 2 }));
    // Where, the rule, what is right by it, what is not, and what the controller says of that.
    let table = [
        (
            ".workloadIPs[].ip",
            "isIP(self)",
            vec![ips(&["192.0.2.1"]), ips(&["fd00::1"])],
            vec![ips(&["host"]), ips(&["192.0.2.1/24"]), ips(&["192.0.2"])],
            "is no address",
        ),
        (
            ".workloadIPs",
            "self.filter(one, one.ip.contains(':')).size() <= 1",
            vec![ips(&["192.0.2.1", "fd00::1"])],
            vec![ips(&["fd00::1", "fd00::2"])],
            "more than one address",
        ),
        (
            ".workloadIPs",
            "self.filter(one, !one.ip.contains(':')).size() <= 1",
            vec![ips(&["fd00::1", "192.0.2.1"])],
            vec![ips(&["192.0.2.1", "192.0.2.2"])],
            "more than one address",
        ),
        (
            ".ports",
            "self.all(one, !has(one.name) || self.exists_one(other, has(other.name) && other.name == one.name))",
            vec![
                ports(json!([{ "port": 1 }, { "port": 2 }])),
                ports(json!([{ "port": 1, "name": "a" }, { "port": 2, "name": "b" }])),
            ],
            vec![ports(
                json!([{ "port": 1, "name": "a" }, { "port": 2, "name": "a" }]),
            )],
            "two ports",
        ),
        (
            ".readinessProbe",
            "has(self.tcpSocket) != has(self.httpGet)",
            vec![
                probe(json!({ "tcpSocket": tcp })),
                probe(json!({ "httpGet": http })),
            ],
            vec![
                probe(json!({})),
                probe(json!({ "tcpSocket": tcp, "httpGet": http })),
            ],
            "tcpSocket",
        ),
    ];
    let mut there = BTreeSet::new();
    rules(manifest().as_object().unwrap(), "", &mut there);
    let known = table
        .iter()
        .map(|(path, rule, ..)| ((*path).to_owned(), (*rule).to_owned()));
    assert_eq!(there, known.collect::<BTreeSet<_>>());
    for (path, rule, good, bad, said) in &table {
        for spec in good {
            assert_eq!(read(spec), Ok(()), "{path}: {rule}: {spec}");
        }
        for spec in bad {
            let error = read(spec).expect_err(&format!("{path}: {rule}: {spec}"));
            assert!(error.contains(said), "{path}: {rule}: {spec}: {error}");
        }
    }
}
